// @peculiar/x509 wires itself with a container that will not load without the metadata half of Reflect. It only asks
// whether anything was recorded, and nothing ever is: three functions that know nothing serve, where a polyfill would
// bring the whole proposal into the process. Import this before x509.

const nothing = {
  getMetadata: () => undefined,
  getOwnMetadata: () => undefined,
  defineMetadata: () => undefined,
};

for (const [name, value] of Object.entries(nothing))
  if (!(name in Reflect)) Object.defineProperty(Reflect, name, { value, configurable: true, writable: true });

export {};
