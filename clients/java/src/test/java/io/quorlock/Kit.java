package io.quorlock;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/** Five real Redis servers and real sidecars for the tests. QUORLOCK_PROGRAM names the built program. */
final class Kit {
    /** No wait in here is meant to last so long; a loaded machine is. */
    static final Duration LONG = Duration.ofSeconds(30);

    private static Nodes nodes;
    private static Sidecar sidecar;

    private Kit() {}

    static synchronized Nodes nodes() {
        if (nodes == null) {
            nodes = new Nodes();
            Runtime.getRuntime().addShutdownHook(new Thread(nodes::close));
        }
        return nodes;
    }

    static synchronized Sidecar sidecar() {
        if (sidecar == null) {
            sidecar = new Sidecar(nodes().urls);
            awaitNodes(Client.at(sidecar.url));
            Runtime.getRuntime().addShutdownHook(new Thread(sidecar::close));
        }
        return sidecar;
    }

    /** On a loaded machine the nodes may need a moment after their start. */
    private static void awaitNodes(Client client) {
        try {
            until(() -> {
                try {
                    client.lock("first").acquire(LONG).close();
                    return true;
                } catch (QuorlockException.NoQuorum error) {
                    return false;
                }
            });
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static void until(Callable<Boolean> isSo) throws Exception {
        long start = System.nanoTime();
        while (!isSo.call()) {
            if (System.nanoTime() - start > LONG.toNanos()) throw new AssertionError("it did not come about");
            Thread.sleep(10);
        }
    }

    static void untilWaits(Client client, String name) throws Exception {
        until(() -> client.status(name).waiters() == 1);
    }

    static Process start(List<String> words, Map<String, String> more) {
        ProcessBuilder builder = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.environment().keySet().removeIf(key -> key.startsWith("QUORLOCK_"));
        builder.environment().putAll(more);
        try {
            return builder.start();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static String program() {
        String found = System.getenv("QUORLOCK_PROGRAM");
        return found == null ? "../../target/debug/quorlock" : found;
    }

    static String line(BufferedReader from) {
        try {
            return from.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static void signal(long pid, String name) {
        try {
            new ProcessBuilder("kill", "-" + name, Long.toString(pid)).start().waitFor();
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void end(Process process, String name) {
        if (process.isAlive()) signal(process.pid(), name);
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Five servers. */
    static final class Nodes implements AutoCloseable {
        final String urls;
        private final Process process;
        private final List<Long> pids;

        Nodes() {
            process = start(List.of(program(), "dev", "--json"), Map.of());
            Said told = Said.of(line(process.inputReader()));
            urls = told.object("environment", it -> it.text("QUORLOCK_NODES"));
            pids = new ArrayList<>(told.objects("nodes", it -> it.number("pid")));
        }

        /** Kills the next ones. */
        void kill(int count) {
            for (int done = 0; done < count; done++) signal(pids.remove(0), "KILL");
        }

        @Override
        public void close() {
            end(process, "TERM");
        }
    }

    /** A sidecar on a free port and a unix socket. */
    static final class Sidecar implements AutoCloseable {
        final String url;
        final String unix;
        final Path dir;
        private final Process process;

        Sidecar(String nodes, String... more) {
            try {
                dir = Files.createTempDirectory("quorlock-client-");
                // For a loaded machine.
                Files.writeString(dir.resolve("quorlock.toml"), "node_timeout = \"240ms\"\n");
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            unix = "unix:" + dir.resolve("s.sock");
            List<String> words = new ArrayList<>(List.of(program(), "serve", "--quiet", "--listen", "127.0.0.1:0", "--listen", unix));
            words.addAll(List.of(more));
            process = start(words, Map.of("QUORLOCK_NODES", nodes, "QUORLOCK_CONFIG", dir.resolve("quorlock.toml").toString()));
            BufferedReader lines = process.inputReader();
            String first = line(lines);
            url = first.substring(first.lastIndexOf(' ') + 1);
            line(lines);
        }

        void signal(String name) {
            Kit.signal(process.pid(), name);
        }

        void await() throws InterruptedException {
            process.waitFor();
        }

        @Override
        public void close() {
            end(process, "KILL");
            try (Stream<Path> files = Files.walk(dir)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
            } catch (IOException error) {
                // A temporary directory that stays.
            }
        }
    }

    /** Passes bytes on to a sidecar or a server, and keeps what was sent and answered. */
    static final class Recorder implements AutoCloseable {
        final String url;
        private final ServerSocket listener;
        private final String host;
        private final int port;
        private final UnaryOperator<String> change;
        private final ByteArrayOutputStream sent = new ByteArrayOutputStream();
        private final ByteArrayOutputStream answered = new ByteArrayOutputStream();
        private final List<Socket> open = new CopyOnWriteArrayList<>();

        /** {@code change}: what callers get instead of an answer. */
        Recorder(String to, UnaryOperator<String> change) throws IOException {
            String at = to.substring(to.indexOf("://") + 3);
            host = at.substring(0, at.lastIndexOf(':'));
            port = Integer.parseInt(at.substring(at.lastIndexOf(':') + 1));
            this.change = change;
            listener = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
            url = "http://127.0.0.1:" + listener.getLocalPort();
            daemon(this::accept);
        }

        private void accept() {
            while (true) {
                try {
                    Socket caller = listener.accept();
                    Socket server = new Socket(host, port);
                    open.addAll(List.of(caller, server));
                    if (listener.isClosed()) close();
                    daemon(() -> pass(caller, server, sent, UnaryOperator.identity()));
                    daemon(() -> pass(server, caller, answered, change));
                } catch (IOException error) {
                    return;
                }
            }
        }

        private static void pass(Socket from, Socket to, ByteArrayOutputStream kept, UnaryOperator<String> change) {
            byte[] data = new byte[65536];
            try {
                for (int read = from.getInputStream().read(data); read >= 0; read = from.getInputStream().read(data)) {
                    kept.write(data, 0, read);
                    String said = new String(data, 0, read, StandardCharsets.ISO_8859_1);
                    to.getOutputStream().write(change.apply(said).getBytes(StandardCharsets.ISO_8859_1));
                }
                to.shutdownOutput();
            } catch (IOException error) {
                // It is over.
            }
        }

        String sent() {
            return sent.toString(StandardCharsets.ISO_8859_1);
        }

        String answered() {
            return answered.toString(StandardCharsets.ISO_8859_1);
        }

        @Override
        public void close() {
            try {
                listener.close();
                for (Socket one : open) one.close();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    /** An answer as a sidecar on another machine gives it, which was started at another time. */
    static String otherBootClock(String said) {
        String key = "\"deadline_boot_ms\":";
        int at = said.indexOf(key) + key.length();
        if (at < key.length()) return said;
        return said.substring(0, at) + (said.charAt(at) == '9' ? '1' : '9') + otherBootClock(said.substring(at + 1));
    }

    /** The way from one sidecar to some nodes, which can be cut for most of them. */
    static final class Wires implements AutoCloseable {
        final String urls;
        private final List<Recorder> recorders = new ArrayList<>();

        Wires(Nodes nodes, int count) throws IOException {
            List<String> through = new ArrayList<>(List.of(nodes.urls.split(",")));
            for (int at = 0; at < count; at++) {
                Recorder recorder = new Recorder(through.get(at), UnaryOperator.identity());
                recorders.add(recorder);
                through.set(at, recorder.url.replace("http:", "redis:"));
            }
            urls = String.join(",", through);
        }

        @Override
        public void close() {
            recorders.forEach(Recorder::close);
        }
    }

    /** {@link CallerProgram} in a process of its own, which can be paused. */
    static final class Caller implements AutoCloseable {
        private final Process process;
        private final BufferedReader lines;

        Caller(String role, String url) throws IOException {
            String path = Stream.of(Client.class, CallerProgram.class)
                    .map(one -> one.getProtectionDomain().getCodeSource().getLocation().getPath())
                    .distinct().reduce((one, other) -> one + ":" + other).orElseThrow();
            String java = ProcessHandle.current().info().command().orElse("java");
            process = new ProcessBuilder(java, "-cp", path, CallerProgram.class.getName(), role, url)
                    .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        }

        String line() {
            return Kit.line(lines);
        }

        void tell(String line) throws IOException {
            process.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
            process.getOutputStream().flush();
        }

        /** Returns when it stands still. */
        void pause() throws Exception {
            signal(process.pid(), "STOP");
            until(() -> {
                String stat = Files.readString(Path.of("/proc/" + process.pid() + "/stat"));
                return stat.substring(stat.lastIndexOf(") ") + 2).startsWith("T");
            });
        }

        void resume() {
            signal(process.pid(), "CONT");
        }

        @Override
        public void close() {
            end(process, "KILL");
        }
    }
}
