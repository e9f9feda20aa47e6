// tsyringe, which @peculiar/x509 wires itself with, refuses to load without the metadata half of Reflect. It asks only
// whether anything was recorded; nothing ever is, so three functions that know nothing serve.

const missing = {
  getMetadata: (): undefined => undefined,
  getOwnMetadata: (): undefined => undefined,
  defineMetadata(): void {},
};

for (const [name, stub] of Object.entries(missing))
  if (!(name in Reflect))
    Object.defineProperty(Reflect, name, { value: stub, configurable: true, writable: true });

export {};
