# One image for every Fairgate process; the command says which (see docker-compose.yml).
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/fairgate \
 && /opt/fairgate/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN /opt/fairgate/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin fairgate
COPY --from=build /opt/fairgate /opt/fairgate
ENV PATH=/opt/fairgate/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
EXPOSE 8001 8002 8004
ENTRYPOINT ["fairgate"]
CMD ["--help"]
