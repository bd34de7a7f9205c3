"""A TCP proxy of 127.0.0.1 that cuts connections, or leaves them hanging like a lost NAT entry."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from dev.servers.port import LOOPBACK

T = TypeVar("T")

_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: end with a reset instead of a farewell


class Proxy:
    """Passes every connection to its `port` on to `target`, until `close`.

    `freeze` leaves the connections of this moment hanging: what either side sends is swallowed and
    neither side is ever told, while new connections work. `thaw` resets what hangs. `cut` resets
    every connection, and each new one until `mend`. A target that refuses is passed on as a reset.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._is_cut = False
        self._frozen: set[_Link] = set()
        self._links: dict[_Link, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, LOOPBACK, 0), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]
        """Where clients connect."""

    def freeze(self) -> int:
        """Leave the open connections hanging; how many there are."""
        return self._call(self._freeze)

    def thaw(self) -> None:
        """Reset what hangs, as the host would that comes back and knows nothing."""
        self._call(self._thaw)

    def cut(self) -> None:
        """Let the target be away: reset what is open, and each new connection until `mend`."""
        self._call(self._cut)

    def mend(self) -> None:
        """End what `cut` began."""
        self._is_cut = False

    def close(self) -> None:
        """End every connection and the proxy; harmless when repeated."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        """Return the proxy, which runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, whatever happened."""
        self.close()

    def _call(self, work: Callable[[], T]) -> T:
        async def called() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def _freeze(self) -> int:
        for link in self._links:
            link.frozen = True
        self._frozen |= self._links.keys()
        return len(self._links)

    def _thaw(self) -> None:
        for link in self._frozen:
            link.reset()
        self._frozen.clear()

    def _cut(self) -> None:
        self._is_cut = True
        for link in self._links:
            link.reset()

    async def _end(self) -> None:
        self._server.close()
        for link in self._links:
            link.reset()
        if self._links:
            await asyncio.wait(self._links.values())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        if self._is_cut:
            link.reset()
            return
        self._links[link] = asyncio.ensure_future(link.carry(reader, self.target))
        try:
            await self._links[link]
        finally:
            del self._links[link]
            self._frozen.discard(link)


class _Link:
    """One client's connection and the one that was made for it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.frozen = False
        self._writers = [client]
        self._over = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, target: int) -> None:
        """Carry bytes both ways until either side ends; a frozen one ends by `reset` alone."""
        try:
            answers, server = await asyncio.open_connection(LOOPBACK, target)
        except OSError:
            self.reset()
            return
        client = self._writers[0]
        self._writers.append(server)
        pumps = [
            asyncio.ensure_future(self._pump(source, sink))
            for source, sink in ((reader, server), (answers, client))
        ]
        await self._over.wait()
        for pump in pumps:
            pump.cancel()
        for writer in self._writers:
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if not self.frozen:
                    writer.write(data)
                    await writer.drain()
        if not self.frozen:
            self._over.set()

    def reset(self) -> None:
        """End both sides at once; they see a reset."""
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        self._over.set()
