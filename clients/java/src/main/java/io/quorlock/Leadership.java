package io.quorlock;

/** A won election, until it is closed. Stop leading when it is lost. */
public final class Leadership extends Lease {
    private final String value;

    Leadership(Client client, String name, Said said, long asked, Exchange stream) {
        super(client, name, said, asked, stream);
        value = said.text("value");
    }

    /** Above that of every leader before. Send it with every command to followers. */
    public long term() {
        return fence();
    }

    /** What was published. */
    public String value() {
        return value;
    }
}
