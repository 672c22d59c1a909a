"""TLS to Headway, and the token that proves which pod this is. It knows neither messages nor training."""

import socket
import ssl
from pathlib import Path
from typing import Self

from headway.progress._environment import SERVER_NAME
from headway.progress._link import NotTrustedError


class PodProof:
    """Headway's certificate authority, and the file of this pod's token, which the kubelet renews."""

    def __init__(self, authority: str, token_file: str) -> None:
        self._token_file = Path(token_file)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_verify_locations(cadata=authority)

    def token(self) -> str:
        """Read for each connection."""
        try:
            return self._token_file.read_text("ascii").strip()
        except (OSError, UnicodeError) as error:
            raise NotTrustedError(f"no progress is reported: the token {self._token_file} cannot be read") from error

    def secure(self, plain: socket.socket) -> "SecureSocket":
        """Within the time-out of the socket."""
        try:
            return SecureSocket(self._context.wrap_socket(plain, server_hostname=SERVER_NAME))
        except ssl.SSLCertVerificationError as error:
            sentence = (
                f"no progress is reported: who listens at HEADWAY_PROGRESS is not Headway: {error.verify_message}"
            )
            raise NotTrustedError(sentence) from error


class SecureSocket:
    """Behaves like a plain socket that does not block: what is not ready raises BlockingIOError."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._tls.fileno()

    def recv(self, most: int) -> bytes:
        try:
            data = self._tls.recv(most)
            while self._tls.pending() and len(data) < most:  # a selector does not see what is decrypted already
                data += self._tls.recv(most - len(data))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        return data

    def send(self, data: bytes) -> int:
        try:
            return self._tls.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def sendall(self, data: bytes) -> None:
        self._tls.sendall(data)

    def settimeout(self, seconds: float) -> None:
        self._tls.settimeout(seconds)

    def setblocking(self, blocking: bool) -> None:
        self._tls.setblocking(blocking)

    def shutdown(self, how: int) -> None:
        self._tls.shutdown(how)

    def close(self) -> None:
        self._tls.close()
