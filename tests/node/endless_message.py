"""A client that is let in and sends a message of very many frames. A script; what it needs comes by standard input."""

import sys
import time

import zmq

address, public, secret, server, frames, size = sys.stdin.read().split("\n")
socket = zmq.Context().socket(zmq.DEALER)
socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = (
    public.encode(),
    secret.encode(),
    server.encode(),
)
socket.setsockopt(zmq.LINGER, 0)
monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
socket.connect(address)
for _ in range(int(frames)):
    socket.send(bytes(int(size)), zmq.SNDMORE)
socket.send(b"")  # from here on it is under way
monitor.poll(20_000)
time.sleep(0.5)
