# Banyan for the CPU, in the size of a small Debian: the package of `make deb`, its model included.
#   docker build -t banyan .
#   docker run --rm -v "$PWD:/data" banyan ask notes.txt "Who signed it?"
FROM debian:12 AS build
WORKDIR /src
# tools/setup.sh has the list of packages; alone in a layer, so that a change of the sources keeps it.
COPY tools/setup.sh tools/setup.sh
RUN apt-get update -qq && tools/setup.sh make dpkg-dev file && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make deb && mkdir /package && cp build/release/banyan_*.deb /package/banyan.deb

FROM debian:12-slim
COPY --from=build /package/banyan.deb /tmp/banyan.deb
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends /tmp/banyan.deb libcurl4 ca-certificates poppler-utils \
 && rm -rf /var/lib/apt/lists/* /tmp/banyan.deb \
 && useradd --create-home --uid 1000 banyan
USER banyan
WORKDIR /data
ENTRYPOINT ["banyan"]
CMD ["help"]
