"""A TLS front for the embedded servers, which are built without TLS: handshake, then bytes."""

import socket
import ssl
import threading
from pathlib import Path

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class TlsFront:
    """Listens on 127.0.0.1:`port` with a certificate, in front of a plain server.

    `asked` is for PostgreSQL, whose clients ask for TLS in plain bytes first.
    """

    def __init__(self, chain: Path, key: Path, behind: int, *, asked: bool = False) -> None:
        self._asked = asked
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(chain, key)
        self._behind = ("127.0.0.1", behind)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nobody any more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._asked:
                if client.recv(len(SSL_REQUEST)) != SSL_REQUEST:
                    client.close()  # a client that does not ask gets nothing
                    return
                client.sendall(b"S")
            secured = self._context.wrap_socket(client, server_side=True)
            server = socket.create_connection(self._behind)
        except OSError:  # the client refused our certificate, or went away
            client.close()
            return
        threading.Thread(target=pass_on, args=(secured, server), daemon=True).start()
        pass_on(server, secured)


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way until either side is gone; both are closed then."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:  # either side is gone
        pass
    for one in (source, target):
        one.close()
