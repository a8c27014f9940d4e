package lancerefs.spark;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;

import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * One thing asked of Python, and what it says.
 *
 * <p>Asked: the name of the work, and its order, which only Python understands. Said: any number of
 * pieces, each after a byte that tells what it is, up to an end or an error.
 */
final class Conversation implements Closeable {

    /** What Python said instead of doing its work. */
    static final class Refusal extends IOException {
        Refusal(String said) {
            super(said);
        }
    }

    private static final int PIECE = 'p';
    private static final int END = 'e';
    private static final int ERROR = 'x';

    final SocketChannel channel;
    private final DataInputStream in;
    private final DataOutputStream out;

    Conversation(String recipe, String work, byte[] order) throws IOException {
        channel = Servant.connect(recipe);
        in = new DataInputStream(Channels.newInputStream(channel));
        out = new DataOutputStream(Channels.newOutputStream(channel));
        try {
            send(work.getBytes("UTF-8"));
            send(order);
        } catch (IOException broken) {
            close();
            throw broken;
        }
    }

    void send(byte[] said) throws IOException {
        try {
            out.writeInt(said.length);
            out.write(said);
        } catch (IOException broken) {
            throw explained(broken);
        }
    }

    void send(int number) throws IOException {
        try {
            out.writeInt(number);
        } catch (IOException broken) {
            throw explained(broken);
        }
    }

    void sendJson(Object said) throws IOException {
        send(new ObjectMapper().writeValueAsBytes(said));
    }

    /** Whether there is another piece; throws what went wrong. */
    boolean hasPiece() throws IOException {
        int what = in.read();
        if (what == ERROR) {
            throw new Refusal(new String(receive(), "UTF-8"));
        }
        if (what != PIECE && what != END) {
            throw broken();
        }
        return what == PIECE;
    }

    /** What Python said before it stopped listening, if it did. */
    IOException explained(IOException broken) {
        try {
            hasPiece();
        } catch (IOException said) {
            return said;
        }
        return broken;
    }

    static IOException broken() {
        return new IOException("Python ended before its work was done");
    }

    byte[] receive() throws IOException {
        byte[] said = new byte[in.readInt()];
        in.readFully(said);
        return said;
    }

    /** The next piece, which has to come. */
    byte[] answer() throws IOException {
        if (!hasPiece()) {
            throw broken();
        }
        return receive();
    }

    public void close() throws IOException {
        channel.close();
    }
}
