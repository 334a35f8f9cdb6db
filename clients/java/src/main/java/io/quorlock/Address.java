package io.quorlock;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import javax.net.ssl.SSLContext;

/**
 * Where the sidecar listens.
 *
 * @param text for messages; it has no secrets
 * @param host for the header
 * @param path of a unix socket, or null
 * @param tls null without TLS
 */
record Address(String text, String host, String name, int port, Path path, SSLContext tls) {
    private static final int DEFAULT_PORT = 7420;

    /** Throws {@link IllegalArgumentException} if it names no sidecar. */
    static Address parse(String text, SSLContext tls) {
        if (text.startsWith("unix:")) {
            String path = text.substring("unix:".length()).replaceFirst("^//", "");
            if (!path.startsWith("/")) throw new IllegalArgumentException("`" + text + "` names no socket: unix:/run/quorlock.sock");
            return new Address(text, "localhost", null, 0, Path.of(path), null);
        }
        // What is not an address may contain a secret, and is not repeated.
        String help = "the address is no sidecar: http://127.0.0.1:7420 or unix:/run/quorlock.sock";
        URI parts;
        try {
            parts = URI.create(text);
        } catch (IllegalArgumentException error) {
            throw new IllegalArgumentException(help);
        }
        if (parts.getRawUserInfo() != null || parts.getRawQuery() != null) {
            throw new IllegalArgumentException("a token does not belong into the address: Client.builder().token(...)");
        }
        boolean isTls = "https".equals(parts.getScheme());
        String at = parts.getRawPath();
        if ((!isTls && !"http".equals(parts.getScheme())) || parts.getHost() == null || !(at == null || at.isEmpty() || at.equals("/"))) {
            throw new IllegalArgumentException(help);
        }
        int port = parts.getPort() < 0 ? DEFAULT_PORT : parts.getPort();
        String host = parts.getHost() + ":" + port;
        String name = parts.getHost().replaceAll("^\\[|\\]$", "");
        return new Address(parts.getScheme() + "://" + host, host, name, port, null, isTls ? tls : null);
    }

    SocketChannel open() throws IOException {
        return path == null ? SocketChannel.open() : SocketChannel.open(StandardProtocolFamily.UNIX);
    }

    SocketAddress target() throws IOException {
        if (path != null) return UnixDomainSocketAddress.of(path);
        InetSocketAddress found = new InetSocketAddress(name, port);
        if (found.isUnresolved()) throw new UnknownHostException(name);
        return found;
    }
}
