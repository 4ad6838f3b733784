# The ranking service. docker build -t perturank . ; for all of it with PostgreSQL see compose.yaml.
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/perturank && /opt/perturank/bin/pip install --no-cache-dir '.[postgres]'

FROM python:3.12-slim
# Volumes take over the owner of the folders that they hide.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/perturank perturank \
    && mkdir /keys && chown perturank /keys && chmod 700 /keys
COPY --from=build /opt/perturank /opt/perturank
ENV PATH=/opt/perturank/bin:$PATH \
    PERTURANK_CACHE=/var/lib/perturank/cache \
    PYTHONUNBUFFERED=1
USER perturank
WORKDIR /var/lib/perturank
VOLUME ["/var/lib/perturank", "/keys"]
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/readyz', timeout=2)"]
ENTRYPOINT ["perturank"]
CMD ["serve", "--host", "0.0.0.0", "--keys", "/keys/perturank.keys"]
