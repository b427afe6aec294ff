// SPDX-License-Identifier: Apache-2.0
// Compares the tokens that Weft makes of random texts with those of Hugging Face's own library, in Rust.
//
//   npm pack tokenizers@0.23.2 && tar xf tokenizers-*.tgz
//   node tools/compare_tokenizers.mjs WEFT package TEXTS SEED TOKENIZER.json...
//
// A package of @huggingface/tokenizers@0.2.0 (JavaScript) is taken too; it finds more added tokens with `normalized` than
// the one in Rust.
//
// Texts are words of several scripts, digits, signs, white space, emoji, marks that combine, the tokenizer's own tokens
// and special tokens spelled out, and code points drawn from all planes, one after the other. Exit code 1: some differ.
import {execFileSync} from 'node:child_process';
import {existsSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';
import {resolve} from 'node:path';

const [weft, library, texts, seed, ...files] = process.argv.slice(2);
const script = resolve(library, 'dist/tokenizers.mjs');
const {Tokenizer} = existsSync(script) ? await import(pathToFileURL(script))
                                       : createRequire(import.meta.url)(resolve(library, 'index.js'));
/// A function from a text to the ids of its tokens.
const encoder = (file, json) => {
  if (existsSync(script)) {
    const made = new Tokenizer(json, {});
    return async (text) => made.encode(text).ids;
  }
  const made = Tokenizer.fromFile(file);
  return async (text) => (await made.encode(text, null, {addSpecialTokens: true})).getIds();
};

// mulberry32
let state = Number(seed) >>> 0;
const random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const one = (list) => list[below(list.length)];

const ranges = [[0x20, 0x7e], [0x20, 0x7e], [0xa0, 0x24f], [0x300, 0x36f], [0x370, 0x3ff], [0x400, 0x4ff], [0x590, 0x6ff],
                [0x900, 0x97f], [0xe00, 0xe7f], [0x1100, 0x11ff], [0x1e00, 0x1fff], [0x2000, 0x206f], [0x2070, 0x22ff],
                [0x2460, 0x27bf], [0x3000, 0x30ff], [0x4e00, 0x9fff], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfe00, 0xffef],
                [0x1d400, 0x1d7ff], [0x1f300, 0x1faff], [0x20000, 0x2a6df]];
const words = ['the', 'The', "it's", "WE'LL", "I'd", 'don\u2019t', '12345', '3.14', '1,000', 'foo_bar', 'a-b', 'http://x.y/z',
               'caf\u00e9', 'cafe\u0301', '\u4f60\u597d', '\u041f\u0440\u0438', '\u0645\u0631', '\ud55c\uad6d', '\u{1F468}\u200d\u{1F469}',
               '{"k": [1]}', 'if(x<1){', '#include', '\u2581', '\u00bd', '\ufb01', 'STRASSE', 'stra\u00dfe'];
const spaces = [' ', ' ', ' ', '  ', '   ', '\n', '\n\n', '\t', '\r\n', '\u00a0', '\u3000', ' \n '];

const pieces = (tokens, specials) => {
  const kinds = [
    () => one(words), () => one(words), () => one(spaces), () => one(spaces), () => one(tokens),
    () => specials.length && below(4) === 0 ? one(specials) : one(spaces),
    () => { const [a, b] = one(ranges); return Array.from({length: 1 + below(5)}, () => String.fromCodePoint(a + below(b - a + 1))).join(''); },
    () => one([...'.,;:!?-_()[]{}<>|&*^%$#@~`\'"/\\+=']).repeat(1 + below(3)),
    () => String(below(10 ** (1 + below(8)))),
  ];
  return () => Array.from({length: 1 + below(12)}, () => one(kinds)()).join('');
};

let differ = 0, all = 0;
for (const file of files) {
  const json = JSON.parse(readFileSync(file, 'utf8'));
  const theirs = encoder(file, json);
  const vocabulary = Array.isArray(json.model.vocab) ? json.model.vocab.map((each) => each[0]) : Object.keys(json.model.vocab);
  const text = pieces(vocabulary, (json.added_tokens ?? []).map((each) => each.content));
  const count = Math.ceil(Number(texts) / files.length);
  let wrong = 0;
  for (let begin = 0; begin < count; begin += 10000) {
    const made = Array.from({length: Math.min(10000, count - begin)}, () => text().toWellFormed());
    const lines = execFileSync(weft, ['tokenize', file, '--batch'],
                               {input: made.map((each) => JSON.stringify(each)).join('\n') + '\n', maxBuffer: 1 << 30});
    const ours = lines.toString().split('\n');
    for (const [i, each] of made.entries()) {
      const expected = (await theirs(each)).join(' ');
      if (expected === ours[i]) continue;
      ++wrong;
      if (wrong <= 5) console.log(`${file}: ${JSON.stringify(each)}\n  weft   ${ours[i]}\n  theirs ${expected}`);
    }
  }
  console.log(`${file}: ${count} texts, ${wrong} differ`);
  differ += wrong, all += count;
}
console.log(`${all} texts by ${files.length} tokenizers, ${differ} differ`);
process.exit(differ === 0 ? 0 : 1);
