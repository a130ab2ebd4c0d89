"""What every request passes through."""

import asyncio
import base64
import gzip
import http.client
import json
import re
import shutil
import socket
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from clearhead.serving.guards import Access, Guards
from clearhead.serving.limits import RequestLimits
from clearhead.serving.server import Address
from clearhead.serving.work import METHODS

KEY = {"Authorization": "Bearer secret"}
ASK = {"q": "She sings.", "source": "en", "target": "fr"}


@pytest.fixture(scope="module")
def guarded(serve, model_folder):
    """A server with a key, a host name, an origin and small limits."""
    access = Access(keys=["secret", "other"], hosts=["models.example.org"], origins=["https://app.example.org"])
    with serve(
        f"en-fr={model_folder}", access=access, limits=RequestLimits(body=2_000, seconds=2), log_texts=True
    ) as served:
        yield served


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1:1", 200), ("[::1]:8765", 200), ("10.1.2.3", 200),
        ("models.example.org", 200), ("models.example.org.", 200),
        ("evil.example.org", 403), ("localhost.evil.org", 403), ("127.0.0.1.evil.org", 403), ("", 403), ("[::1", 403),
        ("a@localhost", 200), ("localhost@evil.org", 403),
    ],
)  # fmt: skip
def test_only_this_servers_host_names_are_answered(guarded, host, status) -> None:
    assert guarded.ask("GET", "/livez", Host=host).status == status


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/translate", "/v1/models", "/openapi.json", "/none"])
def test_without_a_key_nothing_is_answered_and_nothing_of_it_told(guarded, path) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer"}, {"Authorization": "secret"}):
        found = guarded.ask("GET", path, **headers)
        assert found.status == 401 and found.headers["www-authenticate"].split()[0] in ("Basic", "Bearer")
        assert b"secret" not in found.body


def test_a_bearer_token_or_a_password_opens(guarded) -> None:
    for key in ("secret", "other"):
        assert guarded.ask("GET", "/v1/models", Authorization=f"Bearer {key}").status == 200
        basic = base64.b64encode(f"anyone:{key}".encode()).decode()
        assert guarded.ask("GET", "/", Authorization=f"Basic {basic}").status == 200
    assert guarded.ask("GET", "/", Authorization="Basic ????").status == 401
    assert guarded.ask("GET", "/livez").status == guarded.ask("GET", "/readyz").status == 200


def test_libretranslates_clients_send_the_key_in_the_body(guarded) -> None:
    assert guarded.post("/translate", ASK | {"api_key": "secret"}).status == 200
    assert guarded.post("/translate", ASK, **KEY).status == 200
    for path, body in (("/translate", ASK), ("/detect", {"q": "a"}), ("/languages", {})):
        assert guarded.post(path, body).status == guarded.post(path, body | {"api_key": "no"}).status == 401
    assert guarded.post("/translate", ASK | {"api_key": "secret"}, Authorization="Bearer wrong").status == 401


def test_scripts_of_other_websites_are_rejected_unless_allowed(guarded, translator) -> None:
    assert translator.post("/translate", ASK, Origin="https://evil.example.org").status == 403
    assert translator.post("/translate", ASK, Origin="null").status == 403
    assert translator.post("/translate", ASK, Origin=translator.url).status == 200
    assert "access-control-allow-origin" not in translator.post("/translate", ASK, Origin=translator.url).headers
    allowed = guarded.post("/translate", ASK, Origin="https://app.example.org", **KEY)
    assert allowed.status == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example.org"
    asked = {"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST"}
    assert guarded.ask("OPTIONS", "/translate", **asked).status == 200
    assert guarded.ask("OPTIONS", "/translate", **(asked | {"Origin": "https://evil.org"})).status in (400, 401)


def test_a_script_may_ask_before_it_has_a_key_and_can_read_errors(guarded) -> None:
    origin = "https://app.example.org"
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    preflight = guarded.ask("OPTIONS", "/v1/completions", **asked, Access_Control_Request_Headers="authorization")
    assert preflight.status == 200 and "authorization" in preflight.headers["access-control-allow-headers"]
    refused = guarded.post("/translate", ASK, Origin=origin)
    assert refused.status == 401 and "X-Request-ID" in refused.headers["access-control-expose-headers"]
    assert preflight.headers["access-control-allow-origin"] == refused.headers["access-control-allow-origin"] == origin
    evil = guarded.post("/translate", ASK, Origin="https://evil.org", **KEY)
    assert evil.status == 403 and "access-control-allow-origin" not in evil.headers


def test_a_compressed_body_is_not_taken_for_text(translator) -> None:
    body = gzip.compress(json.dumps(ASK).encode())
    found = translator.ask("POST", "/translate", body, Content_Type="application/json", Content_Encoding="gzip")
    assert found.status == 415 and found.headers["accept-encoding"] == "identity"
    assert translator.post("/translate", ASK, Content_Encoding="identity").status == 200


def test_long_text_is_compressed_for_clients_that_can_read_it_but_a_stream_is_not(translator) -> None:
    plain, packed = (translator.ask("GET", "/", Accept_Encoding=it) for it in ("identity", "gzip"))
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body) / 2
    streamed = translator.post("/api/translate", {"text": "She sings.", "stream": True}, Accept_Encoding="gzip")
    assert "content-encoding" not in streamed.headers and streamed.body.startswith(b"data: ")


def test_no_part_of_an_answer_waits_for_the_client_to_acknowledge_another() -> None:
    listening = Address(port=0).listen()
    with listening, socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_id_is_kept_if_it_is_safe_and_given_otherwise(translator) -> None:
    assert translator.ask("GET", "/livez", X_Request_ID="abc-1.2:3").headers["x-request-id"] == "abc-1.2:3"
    for bad in ("a b", "x" * 65, "<b>", ""):
        found = translator.ask("GET", "/livez", X_Request_ID=bad).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", found)


def test_a_large_body_is_rejected_whatever_length_it_announces(guarded) -> None:
    large = json.dumps({"q": "a" * 3_000}).encode()
    found = guarded.ask("POST", "/api/translate", large, Content_Type="application/json", **KEY)
    assert found.status == 413 and "2,000 bytes" in found.json()["error"]["expected"]
    connection = http.client.HTTPConnection("127.0.0.1", guarded.port)
    chunks = iter([large[:1_000]] * 3)
    connection.request("POST", "/translate", chunks, KEY | {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"a" * 3_000
    headers = {"Content_Type": "multipart/form-data; boundary=x", **KEY}
    assert guarded.ask("POST", "/api/classify", form, **headers).status == 413


def test_a_body_that_never_comes_is_given_up(guarded) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=20) as slow:
        slow.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n")
        slow.sendall(b"Content-Length: 99\r\n\r\n{")
        assert b" 408 " in slow.recv(1_000).split(b"\r\n")[0]


@pytest.mark.parametrize("line", ["POST /translate", "POST /api/classify", "HEAD /detect", "GET /livez"])
def test_a_body_that_is_not_what_its_head_says_is_rejected_without_a_traceback(translator, caplog, line) -> None:
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    for content in (b'{"q": "She sings."}', b"1\r\n{}\r\n", b"zz\r\n"):
        with socket.create_connection(("127.0.0.1", translator.port), timeout=60) as sent:
            sent.sendall(head.encode() + content + b"\r\n" * 2)
            answer = b"".join(iter(lambda: sent.recv(1_000), b""))
        assert re.match(rb"HTTP/1.1 (4|200 )", answer)
    assert translator.ask("GET", "/livez").status == 200
    assert not [it for it in caplog.records if it.exc_info or it.levelname in ("ERROR", "CRITICAL")]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/none", 404), ("GET", "/translate", 405), ("POST", "/livez", 405), ("GET", "/v1/none", 404)],
)
def test_paths_and_methods_without_a_route_are_errors_in_json(translator, method, path, status) -> None:
    found = translator.ask(method, path)
    assert found.status == status and found.json()["error"]


def test_a_content_type_that_is_no_json_is_an_error(translator) -> None:
    assert translator.ask("POST", "/translate", b"<q/>", Content_Type="application/xml").status == 415


def test_the_log_has_no_texts_unless_asked_and_no_line_break_of_a_client(guarded, translator, capfd) -> None:
    def logged(server, path: str, name: str, **headers: str) -> str:
        """The line of a request by its id."""
        server.post(path, ASK, X_Request_ID=name, **headers)
        deadline, text = time.monotonic() + 10, ""
        while f" {name}" not in text and time.monotonic() < deadline:
            text += capfd.readouterr().err
        return next(line for line in text.split("\n") if f" {name}" in line)

    line = logged(translator, "/translate", "one")
    assert re.fullmatch(r"127\.0\.0\.1 POST '/translate' 200 \d+ ms one", line)
    assert "'She sings.'" in logged(guarded, "/translate", "two", **KEY)
    assert logged(translator, "/a%0Ab", "three").startswith("127.0.0.1 POST '/a\\nb' 404")


def test_metrics_count_requests_by_route_and_show_the_queue(translator) -> None:
    def count() -> float:
        text = translator.ask("GET", "/metrics").body.decode()
        assert 'clearhead_waiting_texts{model="en-fr"} 0.0' in text
        found = re.search(r'clearhead_requests_total\{route="/translate",status="200"\} (\S+)', text)
        return float(found[1]) if found else 0.0

    before = count()
    translator.post("/translate", ASK)
    assert count() == before + 1
    assert translator.ask("GET", "/secret").status == 404
    assert "/secret" not in translator.ask("GET", "/metrics").body.decode()


def test_a_bug_is_500_with_an_id_and_a_traceback_in_the_log_alone(translator, monkeypatch, capfd) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(type(translator.shelf), "find", broken)
    found = translator.post("/api/translate", {"text": "a"}, X_Request_ID="five")
    assert found.status == 500 and "five" in found.json()["error"]["message"]
    assert b"secret detail" not in found.body and "secret detail" in capfd.readouterr().err


def test_a_client_that_never_reads_is_given_up() -> None:
    async def app(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def never(*_: object) -> None:
        await asyncio.sleep(30)

    counted: list[int] = []
    state = SimpleNamespace(stopping=False, shelf=SimpleNamespace(models={"a": None}))
    scope = {"type": "http", "method": "GET", "path": "/a", "headers": [(b"host", b"localhost")]}
    scope |= {"app": SimpleNamespace(state=state)}
    asyncio.run(
        Guards(app, Access(), RequestLimits(seconds=1), lambda _, status, __: counted.append(status))(
            scope, never, never
        )
    )
    assert counted == [499]


# --- leaving, stopping, reloading


def slow_request(port: int, path: str = "/api/translate", **more: object) -> socket.socket:
    """Send a request that takes many steps, and don't wait for the answer."""
    many = {"text": ["She sings. " * 3] * 30, "min_len": 38, "beam": 16} if path == "/api/translate" else {}
    body = json.dumps(many | more).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    sent = socket.create_connection(("127.0.0.1", port), timeout=60)
    sent.sendall(head.encode() + body)
    return sent


def wait_for(condition) -> bool:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


@pytest.mark.parametrize("more", [{}, {"stream": True, "beam": 1, "text": "She sings."}])
def test_a_client_that_leaves_frees_its_rows(translator, more) -> None:
    batcher = translator.shelf.models["en-fr"].batcher
    sent = slow_request(translator.port, **more)
    assert wait_for(lambda: batcher.busy > 0)
    sent.close()
    assert wait_for(lambda: batcher.busy == batcher.waiting == 0)


@pytest.fixture
def endless(translator, monkeypatch):
    """The translator, whose explanations run the model until their client has left."""

    def explanations(app, inputs, _options) -> None:
        while True:
            app.explain(inputs[0])

    monkeypatch.setitem(METHODS, "explanations", explanations)
    return translator


def test_an_explanation_holds_up_no_translation_and_stops_when_its_client_leaves(endless) -> None:
    queue, text = endless.shelf.models["en-fr"].explanations, "She sings."
    before = endless.post("/translate", ASK).json()
    with slow_request(endless.port, "/api/explain", text=text):
        assert wait_for(lambda: queue.busy == 1)
        assert endless.post("/translate", ASK).json() == before
        assert queue.busy == 1
    assert wait_for(lambda: queue.busy == 0)


def test_explanations_have_a_queue_and_a_limit_of_their_own(endless, monkeypatch) -> None:
    queue, answers = (getattr(endless.shelf.models["en-fr"], it) for it in ("explanations", "batcher"))
    monkeypatch.setattr(queue, "_most", 1)
    with ExitStack() as clients:
        for count in (0, 1):
            clients.enter_context(slow_request(endless.port, "/api/explain", text="She sings."))
            assert wait_for(lambda count=count: (queue.busy, queue.waiting) == (1, count))
        assert endless.post("/api/explain", {"text": "She sings."}).status == 429
        metrics = endless.ask("GET", "/metrics").body.decode()
        assert 'waiting_explanations{model="en-fr"} 1.0' in metrics and 'waiting_texts{model="en-fr"} 0.0' in metrics
        assert answers.waiting == answers.busy == 0
    assert wait_for(lambda: queue.busy == queue.waiting == 0)


def test_a_stopping_server_finishes_what_it_has_and_takes_nothing_new(serve, model_folder) -> None:
    with serve(f"en-fr={model_folder}") as served:
        batcher = served.shelf.models["en-fr"].batcher
        sent = slow_request(served.port)
        assert wait_for(lambda: batcher.busy > 0)
        kept = http.client.HTTPConnection("127.0.0.1", served.port)
        kept.connect()
        served.stop()
        assert wait_for(lambda: served.refuses())
        reply = http.client.HTTPResponse(sent)
        reply.begin()
        assert reply.status == 200 and len(json.loads(reply.read())) == 30
        sent.close()
        kept.close()


def test_reloading_keeps_requests_in_flight_and_a_folder_that_broke_keeps_the_old_model(
    serve, model_folder, tmp_path, capfd
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    with serve(f"again={folder}") as served:
        old = served.shelf.models["again"]
        sent = slow_request(served.port)
        assert wait_for(lambda: old.batcher.busy > 0)
        served.shelf.reload()
        assert served.shelf.models["again"] is not old
        reply = http.client.HTTPResponse(sent)
        reply.begin()
        assert reply.status == 200
        reply.read()
        sent.close()
        (folder / "model.safetensors").write_bytes(b"broken")
        kept = served.shelf.models["again"]
        served.shelf.reload()
        assert served.shelf.models["again"] is kept
        assert "still served" in capfd.readouterr().err
        assert served.post("/translate", ASK).status == 200
        assert wait_for(lambda: sum(it.name == "again" for it in threading.enumerate()) == 1)
