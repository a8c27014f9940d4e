package lancerefs.spark;

import java.io.IOException;

/** What the driver's Python told of itself: how to start it, and how to get into storages. */
public final class Told {
    private static volatile Told newest;

    final String executors;
    private final String driver;
    private final byte[] storages;

    private Told(String executors, String driver, byte[] storages) {
        this.executors = executors;
        this.driver = driver;
        this.storages = storages;
    }

    /**
     * Reads and writes that are asked for from now on go by this.
     *
     * @param executors how to start Python there, in JSON
     * @param driver the same for here
     * @param storages storage options, which hold keys, as Python understands them
     */
    public static void tell(String executors, String driver, byte[] storages) {
        newest = new Told(executors, driver, storages);
    }

    static Told newest() {
        return newest;
    }

    /** A conversation about options that Spark was given, which may need those of storages. */
    Conversation ask(String work) throws IOException {
        return ask(work, storages);
    }

    Conversation ask(String work, byte[] order) throws IOException {
        return new Conversation(driver, work, order);
    }
}
