"""A TCP relay that delays what passes, so that the whole real path is measured over a slow link."""

import asyncio
import random
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self

_PIECE = 65536
_START_S = 10.0
_MOST_PIECES = 256
"""In flight in one direction; the sender waits for room, as for a full socket."""


class Relay:
    """Listens on this machine, and passes bytes on to `port` after a while.

        with Relay(7447, delay_s=0.2, jitter_s=0.05) as relay:
            RemotePolicy(f"tcp/127.0.0.1:{relay.port}")

    A round trip takes `delay_s` longer, half of it in each direction, and up to `jitter_s` more,
    evenly distributed. Order is kept: what comes later never arrives earlier. A thread with an
    event loop does all the work; it starts and ends with the `with` block.
    """

    def __init__(self, port: int, *, delay_s: float, jitter_s: float = 0.0, seed: int = 0) -> None:
        self._target = port
        self._delay_s = delay_s / 2
        self._jitter_s = jitter_s / 2
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._links: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call[T](self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until both sides have ended it, one has broken it, or the relay ends."""
        me = asyncio.current_task()
        if me is not None:
            self._links.add(me)
            me.add_done_callback(self._links.discard)
        writers = [writer]
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, there_writer))
                both.create_task(self._pass_on(there_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in writers:
                one.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction: read at once, write when it is due; the end is passed on as well."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_PIECES)

        async def write() -> None:
            while True:
                due_s, piece = await due.get()
                await asyncio.sleep(due_s - self._loop.time())
                if not piece:
                    with suppress(OSError):
                        writer.write_eof()
                    return
                writer.write(piece)
                await writer.drain()

        async def read() -> None:
            last_s, piece = 0.0, b"."
            while piece:
                piece = await reader.read(_PIECE)
                later_s = self._delay_s + self._jitter_s * self._random.random()
                last_s = max(last_s, self._loop.time() + later_s)
                await due.put((last_s, piece))

        async with asyncio.TaskGroup() as both:
            both.create_task(read())
            both.create_task(write())
