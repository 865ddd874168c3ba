// A file that rows are written to as they come. Where the browser lets the page write a file of the person's choice, that
// one. Else a file of the browser's own, on disk, which is downloaded at the end. Else, without either (plain HTTP from
// another machine), the browser's memory.

const pieceSize = 1 << 16;  // characters that are written at once

class RowFile {
  #waiting = '';

  constructor(name, put, end) { Object.assign(this, {name, put, end}); }

  async write(text) {
    this.#waiting += text;
    if (this.#waiting.length >= pieceSize) await this.#flush();
  }

  // What was written is there from now on.
  async close() {
    await this.#flush();
    await this.end();
  }

  async #flush() {
    const text = this.#waiting;
    this.#waiting = '';
    if (text) await this.put(text);
  }
}

function download(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function chosenFile(name) {
  const csv = name.endsWith('.csv');
  const handle = await window.showSaveFilePicker({suggestedName: name,
    types: [{description: csv ? 'Comma-separated values' : 'JSON lines', accept: csv ? {'text/csv': ['.csv']} : {'application/jsonl': ['.jsonl']}}]});
  const file = await handle.createWritable();
  return new RowFile(handle.name, text => file.write(text), () => file.close());
}

async function ownFile(name) {
  const folder = await navigator.storage.getDirectory(), own = `banyan-${name}`;
  await folder.removeEntry(own).catch(() => {});  // of an earlier job
  const handle = await folder.getFileHandle(own, {create: true}), file = await handle.createWritable();
  addEventListener('pagehide', () => folder.removeEntry(own).catch(() => {}), {once: true});
  return new RowFile(name, text => file.write(text), async () => {
    await file.close();
    download(await handle.getFile(), name);
  });
}

function memoryFile(name) {
  const parts = [];
  return new RowFile(name, text => { parts.push(new Blob([text])); }, () => download(new Blob(parts), name));
}

// Null: the person chose none after all. REQUIRES: a click or a key, which the browser wants to see.
export async function openRowFile(name) {
  if (window.showSaveFilePicker) {
    try {
      return await chosenFile(name);
    } catch (error) {
      if (error.name === 'AbortError') return null;
      throw new Error(`The file cannot be written: ${error.message}`);
    }
  }
  try {
    return await ownFile(name);
  } catch {
    return memoryFile(name);
  }
}
