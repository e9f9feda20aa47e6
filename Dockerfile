# syntax=docker/dockerfile:1
# The guards and the broker in one image. TypeScript runs as it is; the first stage only resolves the dependencies.
# Run it with a read-only root and one writable volume:
#   docker run --read-only -v postern:/var/lib/postern -e POSTERN_SECRET_KEY_FILE=/run/secrets/key … postern
ARG NODE=26
FROM node:${NODE}-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:${NODE}-bookworm-slim
ENV NODE_ENV=production \
    POSTERN_DATA_DIR=/var/lib/postern \
    POSTERN_GIT_LISTEN=0.0.0.0:8443 \
    POSTERN_KUBE_LISTEN=0.0.0.0:8444 \
    POSTERN_OPS_LISTEN=0.0.0.0:9464
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json ./
COPY common common
COPY store store
COPY keyring keyring
COPY audit audit
COPY certs certs
COPY sessions sessions
COPY relay relay
COPY gitproxy gitproxy
COPY kubeguard kubeguard
COPY broker broker
COPY delivery delivery
COPY control control
COPY ops ops
COPY cli cli
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/postern
USER 10001:10001
VOLUME /var/lib/postern
EXPOSE 8443 8444 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9464/livez').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/cli/postern.js"]
CMD ["serve"]
