"""The parameter server's side: holds a part of the parameters, applies gradients, counts the steps.

Workers may come and go; each has a connection and a thread here. It knows nothing of models or progress.
"""

import socket
import threading
import time
from typing import Any

import frames
import jax
import numpy as np
import optax
from checkpoint import Checkpoint

LINGER_SECONDS = 5.0


class Shard:
    """Asynchronous: a gradient is applied when it arrives, to parameters that may have changed since."""

    def __init__(self, params: frames.Arrays, learning_rate: float, steps: int, checkpoint: Checkpoint) -> None:
        optimiser = optax.flatten(optax.adam(learning_rate))

        def apply(state: Any, gradients: Any) -> Any:
            params, memory = state
            updates, memory = optimiser.update(gradients, memory, params)
            return optax.apply_updates(params, updates), memory

        self._apply = jax.jit(apply)
        self._checkpoint = checkpoint
        self._changed = threading.Condition()
        self._workers = 0
        self.steps = steps
        self.loss: float | None = None
        self.step, self._state = checkpoint.load(jax.jit(lambda given: (given, optimiser.init(given)))(params))

    @property
    def finished(self) -> bool:
        return self.step >= self.steps

    @property
    def workers(self) -> int:
        return self._workers

    def params(self) -> frames.Arrays:
        with self._changed:
            params = self._state[0]
        return {name: np.asarray(array) for name, array in params.items()}

    def push(self, gradients: frames.Arrays, loss: float) -> None:
        """Applies one step, unless all are done or the gradient does not fit these parameters."""
        with self._changed:
            params = self._state[0]
            fits = {n: a.shape for n, a in gradients.items()} == {n: a.shape for n, a in params.items()}
            if self.finished or not fits:
                return
            self._state = self._apply(self._state, gradients)
            self.step += 1
            self.loss = loss
            self._changed.notify_all()

    def save(self, _step: int) -> None:
        with self._changed:
            step, state = self.step, self._state
        self._checkpoint.save(step, state)

    def wait_beyond(self, step: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.step > step or self.finished, seconds)

    def listen(self, listener: socket.socket) -> None:
        """Starts to answer workers, in threads that end with the process."""
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def wait_until_told(self) -> None:
        """Tells every connected worker that asks soon that all steps are done."""
        deadline = time.monotonic() + LINGER_SECONDS
        while self._workers and time.monotonic() < deadline:
            time.sleep(0.02)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            with self._changed:
                self._workers += 1
            try:
                while True:
                    header, arrays = frames.receive(connection)
                    if header.get("push"):
                        self.push(arrays, float(str(header.get("loss"))))
                    frames.send(connection, {"step": self.step, "finished": self.finished}, self.params())
            except (OSError, EOFError, ValueError, frames.BrokenFrameError):
                pass  # the worker left, or never was one: the others go on
            finally:
                with self._changed:
                    self._workers -= 1
