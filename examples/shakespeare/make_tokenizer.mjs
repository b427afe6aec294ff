// SPDX-License-Identifier: Apache-2.0
// The tokenizer of this example: byte-level BPE of 2,048 tokens, of the text's first nine tenths. It is trained by the
// Rust library (npm's tokenizers 0.23.2, unpacked), whose trainer learns as many merges as the text gives; the first
// ones are kept, which are those that a trainer for 2,048 tokens would have found. tokenizer.json is what this wrote.
//
//   node make_tokenizer.mjs FOLDER-OF-TOKENIZERS input.txt > tokenizer.json
import {createRequire} from 'node:module';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [folder, text] = process.argv.slice(2);
if (!text) throw new Error('node make_tokenizer.mjs FOLDER-OF-TOKENIZERS input.txt > tokenizer.json');
const {Tokenizer, BPE, byteLevelPreTokenizer} = createRequire(import.meta.url)(path.resolve(folder, 'index.js'));
const kTokens = 2048, kEnd = '<|endoftext|>';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-'));
const learned = path.join(scratch, 'learned.txt');
fs.writeFileSync(learned, fs.readFileSync(text).subarray(0, 1003854));
const tokenizer = new Tokenizer(BPE.empty());
tokenizer.setPreTokenizer(byteLevelPreTokenizer(false));
tokenizer.train([learned]);
tokenizer.save(path.join(scratch, 'trained.json'), false);
const {model} = JSON.parse(fs.readFileSync(path.join(scratch, 'trained.json'), 'utf8'));
fs.rmSync(scratch, {recursive: true});

// The letters by which byte-level vocabularies write bytes: printable ones as they are, then others.
const plain = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
let others = 0;
const letters = Array.from({length: 256}, (_, b) => String.fromCodePoint(plain(b) ? b : 256 + others++));
const vocabulary = Object.fromEntries([kEnd, ...letters].map((token, id) => [token, id]));
const merges = [];
for (const merge of model.merges) {
  if (Object.keys(vocabulary).length === kTokens) break;
  const pair = Array.isArray(merge) ? merge : merge.split(' ');
  vocabulary[pair.join('')] ??= Object.keys(vocabulary).length;
  merges.push(pair.join(' '));
}
const bytes = {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true};
console.log(JSON.stringify({
  version: '1.0', truncation: null, padding: null,
  added_tokens: [{id: 0, content: kEnd, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true}],
  normalizer: null, pre_tokenizer: bytes, post_processor: null, decoder: bytes,
  model: {type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
          fuse_unk: false, byte_fallback: false, vocab: vocabulary, merges},
}));
