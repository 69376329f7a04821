# aiocg without installing anything but a container engine:
#
#     docker build -t aiocg .
#     docker run --rm -it -v "$PWD:/work" aiocg search program.c -o best.o
#
# Worker processes need nothing of the host, no privileges and no network.
ARG BASE=python:3.13-slim
FROM $BASE
COPY . /src
# The first start of Python links LLVM's files; whoever installs them must be the one who starts it.
RUN python3 -m venv /opt/aiocg && /opt/aiocg/bin/pip install --no-cache-dir /src && /opt/aiocg/bin/aiocg --version \
    && rm -rf /src && useradd --create-home --uid 1000 aiocg \
    && mkdir -p /work && chown aiocg /work
ENV PATH=/opt/aiocg/bin:$PATH
USER aiocg
WORKDIR /work
ENTRYPOINT ["aiocg"]
CMD ["--help"]
