package lancerefs.spark;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.SocketException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonUtils;

/** The Python process of this JVM that reads and writes for all of its tasks; it ends with it. */
final class Servant {
    private static final String MODULE = "airflow_provider_lancerefs.spark.jvm.serving";
    private static final String PATH = "PYTHONPATH";
    private static final int LONGEST_PATH = 100; // that every system has room for, of a socket
    private static final Map RUNNING = new HashMap();

    private final Path socket;
    private Process process;

    private Servant() throws IOException {
        socket = folder().resolve("socket");
    }

    /** A folder for the socket, in `/tmp` where the JVM's own place is too deep for one. */
    private static Path folder() throws IOException {
        Path found = Files.createTempDirectory("lancerefs-");
        if (found.toString().getBytes("UTF-8").length < LONGEST_PATH) {
            return found;
        }
        Files.delete(found);
        return Files.createTempDirectory(new File("/tmp").toPath(), "lancerefs-");
    }

    private void start(String recipe) throws IOException {
        // Its standard input is what tells it that this JVM is no more: nobody ever writes there.
        ProcessBuilder command = command(recipe, socket);
        process = command.start();
        String said =
            new BufferedReader(new InputStreamReader(process.getInputStream(), "UTF-8")).readLine();
        if (said == null) {
            throw new IOException("Python could not be started to read and write Lance tables: '"
                + command.command().get(0) + "' needs pyspark, pyarrow, pylance and the files that "
                + "were submitted, or PYSPARK_PYTHON has to name one that has them; its own words "
                + "are in the stderr of this JVM");
        }
    }

    /** Leave nothing of it, however far it came. */
    private void end() {
        if (process != null) {
            process.destroyForcibly();
        }
        socket.toFile().delete();
        socket.getParent().toFile().delete();
    }

    /**
     * A new connection to the process, which is started if it is not there.
     *
     * @param recipe how to start it, as the driver's Python put it in JSON
     */
    static synchronized SocketChannel connect(String recipe) throws IOException {
        Servant servant = (Servant) RUNNING.get(recipe);
        if (servant != null) {
            try {
                return servant.connect();
            } catch (SocketException gone) {
                RUNNING.remove(recipe);
                servant.end();
            }
        }
        servant = new Servant();
        try {
            servant.start(recipe);
        } catch (IOException failed) {
            servant.end();
            throw failed;
        }
        RUNNING.put(recipe, servant);
        return servant.connect();
    }

    private SocketChannel connect() throws IOException {
        return SocketChannel.open(UnixDomainSocketAddress.of(socket));
    }

    /** As Spark starts its own Python workers: with what was submitted, where it lies here. */
    private static ProcessBuilder command(String recipe, Path socket) throws IOException {
        Map said = (Map) new ObjectMapper().readValue(recipe, Map.class);
        ProcessBuilder builder = new ProcessBuilder(
            new String[] {(String) said.get("python"), "-m", MODULE, socket.toString()});
        Map environment = builder.environment();
        Object inherited = environment.get(PATH); // on YARN this alone tells where that lies
        environment.putAll((Map) said.get("environment"));
        StringBuilder places = new StringBuilder();
        Iterator includes = ((List) said.get("includes")).iterator();
        while (includes.hasNext()) {
            File include = new File(SparkFiles.getRootDirectory(), (String) includes.next());
            places.append(include).append(File.pathSeparator);
        }
        Object[] more = new Object[] {environment.get(PATH), inherited};
        for (int i = 0; i < more.length; i++) {
            if (more[i] != null) {
                places.append(more[i]).append(File.pathSeparator);
            }
        }
        environment.put(PATH, places.append(PythonUtils.sparkPythonPath()).toString());
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    }
}
