import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.kubernetes.client.utils.Serialization;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import io.fabric8.mockwebserver.dsl.HttpMethod;
import io.fabric8.mockwebserver.http.Buffer;
import io.fabric8.mockwebserver.http.MockResponse;
import io.fabric8.mockwebserver.http.RecordedRequest;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;

/**
 * Kubernetes's API on a free loopback port, until its standard input ends.
 *
 * <p>It says its port, and then in a line each what it is given to keep.
 */
final class ApiServer extends KubernetesCrudDispatcher {
    public static void main(String[] arguments) throws Exception {
        KubernetesMockServer server = new KubernetesMockServer(
            new Context(), new MockWebServer(), new HashMap<>(), new ApiServer(), false);
        server.init(InetAddress.getByName("127.0.0.1"), 0);
        System.out.println(server.getPort());
        System.in.read();
        server.destroy();
    }

    /** A new pod is pending, which the server that this is made of leaves unsaid. */
    @Override
    public MockResponse handleCreate(RecordedRequest request) {
        say(request);
        String body = body(request);
        if (request.getPath().endsWith("/pods")) {
            Pod pod = Serialization.unmarshal(body, Pod.class);
            body = Serialization.asJson(
                new PodBuilder(pod).withNewStatus().withPhase("Pending").endStatus().build());
        }
        return super.handleCreate(with(request, HttpMethod.POST, request.getPath(), body));
    }

    @Override
    public MockResponse handleUpdate(RecordedRequest request) {
        say(request);
        return super.handleUpdate(request);
    }

    /** Spark has objects applied, of which the server that this is made of knows nothing. */
    @Override
    public MockResponse handlePatch(RecordedRequest request) {
        if (!String.valueOf(request.getHeader("Content-Type")).contains("apply-patch")) {
            say(request);
            return super.handlePatch(request);
        }
        String path = request.getPath().replaceFirst("\\?.*", "");
        String body = body(request);
        if (findResource(getKey(path)) != null) {
            return handleUpdate(with(request, HttpMethod.PUT, path, body));
        }
        String kind = path.substring(0, path.lastIndexOf('/'));
        return handleCreate(with(request, HttpMethod.POST, kind, body));
    }

    private static void say(RecordedRequest request) {
        System.out.println(request.getPath() + " " + body(request).replace('\n', ' '));
    }

    /** The body, which stays to be read again. */
    private static String body(RecordedRequest request) {
        return new String(request.getBody().getBytes(), StandardCharsets.UTF_8);
    }

    private static RecordedRequest with(
            RecordedRequest request, HttpMethod method, String path, String body) {
        Buffer content = new Buffer(body.getBytes(StandardCharsets.UTF_8));
        return new RecordedRequest(
            request.getHttpVersion(), method, path, request.getHeaders(), content);
    }
}
