# One Recollect server: the console, REST, and MCP over HTTP. docs/installing.md says how to run it.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY recollect ./recollect
RUN python -m venv /opt/recollect \
    && /opt/recollect/bin/pip install --no-cache-dir '.[documents,postgres,server]'

FROM python:3.13-slim
COPY --from=build /opt/recollect /opt/recollect
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin recollect \
    && install --directory --owner=recollect --group=recollect --mode=0700 /data
ENV PATH=/opt/recollect/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RECOLLECT_HOME=/data \
    RECOLLECT_HOST=0.0.0.0 \
    RECOLLECT_PORT=8765
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
# The server answers /healthz without an API key. Redirects and other statuses count as failures.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; assert r.urlopen('http://127.0.0.1:8765/healthz', timeout=4).status == 200"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["recollect"]
CMD ["serve"]
