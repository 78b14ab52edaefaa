"""A TCP proxy that delays, stalls and cuts: a bad link where the kernel cannot make one.

What a lossy link does to TCP is a stall: the lost segment is sent again after a while, and all
that follows waits behind it.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

_BLOCK = 65536
_RETRANSMITTED_S = 0.2
"""Linux waits at least this long before it sends a lost segment again; then twice as long."""
_LONG_S = 20.0


@dataclass(frozen=True)
class Weather:
    """What happens to each block of bytes, in both directions."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    """Up to so much more, evenly distributed; blocks keep their order."""
    loss: float = 0.0
    """How often a block, or its repetition, is lost."""

    def later_s(self, draw: random.Random) -> float:
        later_s = self.delay_s + self.jitter_s * draw.random()
        again_s = _RETRANSMITTED_S
        while draw.random() < self.loss:
            later_s += again_s
            again_s *= 2
        return later_s


CALM = Weather()


class Proxy:
    """Listens on the loopback, and connects each link to `endpoint`.

        with Proxy("tcp/127.0.0.1:7447") as proxy:
            proxy.weather = Weather(jitter_s=0.2)
            proxy.cut()      # links end, new ones are refused
            proxy.stall()    # links stay, and nothing passes
            proxy.mend()

    Everything but `weather` belongs to one thread, which runs an event loop; the methods above hand
    their work to it and wait until it is done.
    """

    def __init__(self, endpoint: str, seed: int = 0) -> None:
        host, _, port = endpoint.removeprefix("tcp/").rpartition(":")
        self._there = (host, int(port))
        self._draw = random.Random(seed)
        self.weather = CALM
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self._do(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LONG_S)
        self._loop.close()

    def cut(self) -> None:
        self._do(self._cut)

    def stall(self) -> None:
        self._do(self._flows.clear)

    def mend(self) -> None:
        self._do(self._mend)

    def _do(self, step: Callable[[], object]) -> None:
        async def run() -> None:
            result = step()
            if asyncio.iscoroutine(result):
                await result

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(_LONG_S)

    # The event loop's thread.

    async def _open(self) -> None:
        self._flows = asyncio.Event()
        self._flows.set()
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self.endpoint = f"tcp/127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _close(self) -> None:
        self._server.close()
        mine = asyncio.current_task()
        links = [task for task in asyncio.all_tasks() if task is not mine]
        for task in links:
            task.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def _mend(self) -> None:
        self._is_cut = False
        self._flows.set()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = {writer}
        try:
            if self._is_cut:
                return
            there, to_there = await asyncio.open_connection(*self._there)
            writers.add(to_there)
            self._writers |= writers
            pumps = [self._pump(reader, to_there), self._pump(there, writer)]
            tasks = [asyncio.ensure_future(pump) for pump in pumps]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        except OSError:
            pass  # nobody listens there now
        finally:
            self._writers -= writers
            for one in writers:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass blocks on, each at its time, in their order."""
        blocks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            while block := await reader.read(_BLOCK):
                blocks.put_nowait((self._loop.time() + self.weather.later_s(self._draw), block))

        reading = asyncio.ensure_future(read())
        try:
            while True:
                taking = asyncio.ensure_future(blocks.get())
                await asyncio.wait({reading, taking}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    taking.cancel()
                    return
                due_s, block = taking.result()
                await asyncio.sleep(due_s - self._loop.time())
                await self._flows.wait()
                writer.write(block)
                await writer.drain()
        finally:
            reading.cancel()
