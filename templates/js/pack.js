// Reading the packed data: base64, deflate, JSON; each piece when it is first needed.

const blobs = new Map();

function hasBlob(name) {
  return byId("blob-" + name) !== null;
}

function blob(name) {
  if (!blobs.has(name)) blobs.set(name, unpack(byId("blob-" + name).textContent));
  return blobs.get(name);
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function undelta(numbers) {
  const out = new Int32Array(numbers.length);
  let at = 0;
  for (let k = 0; k < numbers.length; k++) out[k] = at += numbers[k];
  return out;
}
