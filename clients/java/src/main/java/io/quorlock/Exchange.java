package io.quorlock;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.concurrent.Future;
import java.util.function.LongSupplier;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * One request on a connection of its own, and the answer to it.
 *
 * <p>Not by {@code java.net.http.HttpClient}, which knows no unix sockets, and which decides itself when to reuse and when to
 * close a connection. A hold lasts exactly as long as its connection.
 */
final class Exchange implements AutoCloseable {
    /** The most that one answer may have. */
    private static final int LONGEST_ANSWER = 16 << 20;
    /** The most that one line may have. */
    private static final int LONGEST_LINE = 1 << 20;
    private static final int MOST_HEADERS = 100;

    private final SocketChannel channel;
    private InputStream in;
    private OutputStream out;
    private Future<?> limit;
    private volatile boolean isTooLate;
    private boolean isChunked;
    private long bodyLeft;
    private boolean isAtEnd;
    /** From before the request was sent. Every deadline is counted from here. */
    long asked;
    int status;

    private Exchange(SocketChannel channel) {
        this.channel = channel;
    }

    /** Writes a request and reads the head of the answer, for which the sidecar has {@code timeout}. */
    static Exchange send(Address address, LongSupplier clock, String method, String path, String token, String body, long timeout)
            throws IOException {
        Exchange sent = new Exchange(address.open());
        try {
            sent.limit(timeout);
            sent.connect(address);
            sent.asked = clock.getAsLong();
            IOException unsent = sent.write(method, path, address.host(), token, body);
            try {
                sent.readHead();
            } catch (IOException error) {
                // If it could not be written, the sidecar may have refused it already: then the answer is there.
                throw unsent == null ? error : unsent;
            }
            return sent;
        } catch (IOException error) {
            sent.close();
            throw sent.isTooLate ? new SocketTimeoutException("no answer in time") : error;
        } catch (RuntimeException error) {
            sent.close();
            throw error;
        }
    }

    /** Closes the connection after that time, unless another limit is set; 0 for none. */
    synchronized void limit(long millis) {
        if (limit != null) limit.cancel(false);
        limit = millis == 0 ? null : Watch.later(() -> {
            isTooLate = true;
            closeChannel();
        }, millis);
    }

    private void connect(Address address) throws IOException {
        channel.connect(address.target());
        if (address.tls() == null) {
            in = new BufferedInputStream(new ChannelInput(channel));
            out = new ChannelOutput(channel);
            return;
        }
        Socket plain = channel.socket();
        SSLSocket secure = (SSLSocket) address.tls().getSocketFactory().createSocket(plain, address.name(), address.port(), true);
        SSLParameters parameters = secure.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secure.setSSLParameters(parameters);
        secure.startHandshake();
        in = new BufferedInputStream(secure.getInputStream());
        out = secure.getOutputStream();
    }

    private IOException write(String method, String path, String host, String token, String body) {
        StringBuilder head = new StringBuilder(method).append(' ').append(path).append(" HTTP/1.1\r\nhost: ").append(host);
        head.append("\r\nconnection: close\r\n");
        if (token != null) head.append("authorization: Bearer ").append(token).append("\r\n");
        byte[] content = body == null ? new byte[0] : body.getBytes(StandardCharsets.UTF_8);
        if (body != null) {
            head.append("content-type: application/json\r\ncontent-length: ").append(content.length).append("\r\n");
        }
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.writeBytes(head.append("\r\n").toString().getBytes(StandardCharsets.UTF_8));
        all.writeBytes(content);
        try {
            out.write(all.toByteArray());
            out.flush();
            return null;
        } catch (IOException error) {
            return error;
        }
    }

    private void readHead() throws IOException {
        String[] words = headLine().split(" ", 3);
        if (words.length < 2 || !words[0].startsWith("HTTP/1.") || !words[1].matches("[1-9][0-9]{2}")) {
            throw new IOException("what answers does not speak HTTP/1.1");
        }
        status = Integer.parseInt(words[1]);
        bodyLeft = Long.MAX_VALUE;
        for (int headers = 0; headers < MOST_HEADERS; headers++) {
            String line = headLine();
            if (line.isEmpty()) {
                if (isChunked) bodyLeft = 0;
                return;
            }
            int colon = Math.max(line.indexOf(':'), 0);
            String value = line.substring(colon).replaceFirst("^:", "").trim();
            switch (line.substring(0, colon).toLowerCase(Locale.ROOT)) {
                case "transfer-encoding" -> isChunked = value.equalsIgnoreCase("chunked");
                case "content-length" -> bodyLeft = number(value, 10);
                default -> { }
            }
        }
        throw new IOException("the sidecar sent too many headers");
    }

    private String headLine() throws IOException {
        StringBuilder line = new StringBuilder();
        while (line.length() < LONGEST_LINE) {
            int one = in.read();
            if (one < 0) throw new EOFException("the sidecar ended the connection");
            if (one == '\n') return line.toString().replaceFirst("\r$", "");
            line.append((char) one);
        }
        throw new IOException("the sidecar sent too long a line");
    }

    private static long number(String digits, int radix) throws IOException {
        try {
            return Long.parseLong(digits.trim(), radix);
        } catch (NumberFormatException error) {
            throw new IOException("the sidecar sent no length", error);
        }
    }

    /** One byte of the body, or -1 at its end. */
    private int read() throws IOException {
        if (isAtEnd) return -1;
        if (bodyLeft == 0 && !nextChunk()) {
            isAtEnd = true;
            return -1;
        }
        int one = in.read();
        if (one < 0) {
            if (bodyLeft < Long.MAX_VALUE / 2) throw new EOFException("the sidecar ended the connection");
            isAtEnd = true;
            return -1;
        }
        bodyLeft--;
        if (isChunked && bodyLeft == 0) headLine();
        return one;
    }

    private boolean nextChunk() throws IOException {
        if (!isChunked) return false;
        bodyLeft = number(headLine().split(";", 2)[0], 16);
        return bodyLeft > 0;
    }

    /** The rest of the body. */
    String text() throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (int one = read(); one >= 0; one = read()) {
            if (all.size() >= LONGEST_ANSWER) throw new IOException("the sidecar answered more than fits");
            all.write(one);
        }
        return all.toString(StandardCharsets.UTF_8);
    }

    /** The next line of the body, or null at its end. */
    String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int one = read(); one != '\n'; one = read()) {
            if (one < 0) return null;
            if (line.size() >= LONGEST_LINE) throw new IOException("the sidecar sent too long a line");
            line.write(one);
        }
        return line.toString(StandardCharsets.UTF_8).replaceFirst("\r$", "");
    }

    /** Ends our half of the connection. */
    void hangUp() {
        try {
            channel.shutdownOutput();
        } catch (IOException | UnsupportedOperationException error) {
            closeChannel();
        }
    }

    @Override
    public void close() {
        limit(0);
        closeChannel();
    }

    private void closeChannel() {
        try {
            channel.close();
        } catch (IOException error) {
            // It is gone already.
        }
    }

    /** Unlike those of {@code Channels}, it has no lock that closing and writing wait for. */
    private static final class ChannelInput extends InputStream {
        private final SocketChannel channel;

        ChannelInput(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] into, int from, int length) throws IOException {
            return channel.read(ByteBuffer.wrap(into, from, length));
        }
    }

    private static final class ChannelOutput extends OutputStream {
        private final SocketChannel channel;

        ChannelOutput(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] data, int from, int length) throws IOException {
            for (ByteBuffer rest = ByteBuffer.wrap(data, from, length); rest.hasRemaining(); ) channel.write(rest);
        }
    }
}
