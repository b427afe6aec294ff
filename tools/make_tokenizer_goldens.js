// SPDX-License-Identifier: Apache-2.0
// Makes tests/data/text/steps.json: what the Rust tokenizers do with each step alone. To remake it, in an empty folder:
//   npm pack tokenizers@0.23.2 && tar xf tokenizers-*.tgz && node make_tokenizer_goldens.js package > steps.json
// An encoding case has a tokenizer and texts, and gets their ids; a decoding case has ids, and gets their text.
const {Tokenizer} = require(require('path').resolve(process.argv[2], 'index.js'));

const texts = [
  '', 'a', ' ', 'Hello, World!', '  two  spaces ', 'tab\tnew\nline\r\n', "it's we'll I'D", '12 345 6x7', '\u00bd \u2167 \u0663',
  'na\u00efve cafe\u0301 \u212b \ufb01 \u1e9b\u0323', '\u00c5\u0130\u03a3\u03c3\u03c2 STRASSE \u1e9e', 'foo_bar::baz<T>&&x;', '\u4f60\u597d\uff0c\u4e16\u754c\u3002',
  '\u00a0\u2003\u3000x\u0085y\u200bz', '\u2581a\u2581\u2581b', 'a-b--c', '\u{1F600}\u{1F468}\u200d\u{1F469}', '\u0e01\u0e33 \u0939\u093f\u0928\u094d', '\u0000\u0001\u007f\ufffdq',
  '<s>x</s> <s>', 'abcabcabc', 'unknown \u00e9\u00e9 z', 'aaaaaaa', '$1.00+2=3^4`~|', '\u00a1\u00bf\u203d\u3010', 'x\u0301\u0302y\u20dd', '\uac00\u1100\u1161', '  ',
];

/// A model whose ids are bytes: all of a text's pieces as they are, "##" before each character that begins none.
const bytes = Object.fromEntries([...Array(256).keys()].map(
    (i) => ['<0x' + i.toString(16).toUpperCase().padStart(2, '0') + '>', i]));
const observer = {type: 'BPE', vocab: bytes, merges: [], byte_fallback: true, continuing_subword_prefix: '##'};
const tokenizer = (parts) => ({version: '1.0', added_tokens: [], normalizer: null, pre_tokenizer: null,
  post_processor: null, decoder: null, truncation: null, padding: null, model: observer, ...parts});
const added = (id, content, options) => ({id, content, single_word: false, lstrip: false, rstrip: false,
  normalized: false, special: false, ...options});

const normalizers = [
  ...['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents', 'ByteLevel'].map((type) => ({type})),
  {type: 'Strip', strip_left: true, strip_right: true}, {type: 'Strip', strip_left: false, strip_right: true},
  {type: 'Strip', strip_left: true, strip_right: false}, {type: 'Prepend', prepend: '\u2581'},
  {type: 'Replace', pattern: {String: ' '}, content: '\u2581'}, {type: 'Replace', pattern: {Regex: '\\s+'}, content: '_'},
  {type: 'Replace', pattern: {Regex: '[^\\w\\d]'}, content: ''},
  {type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true},
  {type: 'BertNormalizer', clean_text: true, handle_chinese_chars: false, strip_accents: null, lowercase: false},
  {type: 'BertNormalizer', clean_text: false, handle_chinese_chars: true, strip_accents: true, lowercase: false},
  {type: 'BertNormalizer', clean_text: false, handle_chinese_chars: false, strip_accents: false, lowercase: true},
  {type: 'Sequence', normalizers: [{type: 'NFD'}, {type: 'StripAccents'}, {type: 'Lowercase'}]},
];
const behaviors = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'];
const expressions = {
  llama3: "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  classes: '\\w\\W|\\d\\D|\\h{2}', anchors: '^.|.$', around: '(?<=a)b|c(?!a)|(?>x+)', line: 'l.n', brackets: '[a-c&&[^b]]+|[\\s\\d]+',
};
const pre_tokenizers = [
  ...behaviors.flatMap((behavior) => [false, true].map((invert) => ({type: 'Split', pattern: {Regex: '[aeiou -]'}, behavior, invert}))),
  ...Object.values(expressions).map((e) => ({type: 'Split', pattern: {Regex: e}, behavior: 'Isolated', invert: false})),
  {type: 'Split', pattern: {String: ' '}, behavior: 'Removed', invert: false},
  ...[[true, true], [false, true], [true, false], [false, false]].map(
      ([add_prefix_space, use_regex]) => ({type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex})),
  ...['always', 'first', 'never'].flatMap((prepend_scheme) => [true, false].map(
      (split) => ({type: 'Metaspace', replacement: '\u2581', prepend_scheme, split}))),
  {type: 'Digits', individual_digits: true}, {type: 'Digits', individual_digits: false},
  ...behaviors.map((behavior) => ({type: 'Punctuation', behavior})),
  {type: 'Whitespace'}, {type: 'WhitespaceSplit'}, {type: 'BertPreTokenizer'}, {type: 'CharDelimiterSplit', delimiter: 'a'},
  {type: 'Sequence', pretokenizers: [{type: 'Digits', individual_digits: true}, {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true}]},
  {type: 'Sequence', pretokenizers: [{type: 'WhitespaceSplit'}, {type: 'Metaspace', replacement: '\u2581', prepend_scheme: 'first', split: true}]},
];
const letters = (list) => Object.fromEntries(list.map((token, id) => [token, id]));
const words = ['[UNK]', 'a', 'b', 'c', 'ab', 'abc', 'bc', 'aa', 'aaa', ' ', 'x', 'un', 'know', 'n', 'o', 'w', 'k', 'u', '##n', '##know', '##a', '##b', '##c', '##x', 'e'];
const bpe = {type: 'BPE', vocab: letters(words), merges: ['a b', 'b c', 'ab c', 'a a', 'aa a', 'u n'], dropout: null, unk_token: null,
  continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false};
const models = [
  bpe, {...bpe, merges: bpe.merges.map((pair) => pair.split(' '))}, {...bpe, unk_token: '[UNK]'}, {...bpe, unk_token: '[UNK]', fuse_unk: true},
  {...bpe, ignore_merges: true, merges: ['a b']}, {...bpe, merges: ['a a', 'a a', 'aa a']},
  {...bpe, vocab: letters(['[UNK]', 'a', '##a', 'aa', '##b', 'ab', 'aba', '##aa']), merges: ['a ##a', '##a ##a', 'a ##b', 'ab ##a'], continuing_subword_prefix: '##', unk_token: '[UNK]'},
  {...bpe, vocab: letters(['[UNK]', 'a', 'b</w>', 'a</w>', 'ab</w>', 'aa', 'aa</w>', 'b', 'c']), merges: ['a b</w>', 'a a', 'a a</w>'], end_of_word_suffix: '</w>', unk_token: '[UNK]'},
  {...bpe, vocab: {...bytes, '[UNK]': 256, a: 257, b: 258, ab: 259}, merges: ['a b'], byte_fallback: true, unk_token: '[UNK]', fuse_unk: true},
  {type: 'Unigram', unk_id: 0, vocab: [['[UNK]', 0], ['a', -1], ['b', -1.5], ['ab', -2.25], ['abc', -3], ['c', -1], ['aa', -1.75], ['aaa', -2.5], ['x', -4], [' ', -2], ['un', -3]], byte_fallback: false},
  {type: 'Unigram', unk_id: 1, vocab: [['a', -2], ['[UNK]', -9], ['aa', -4], ...Object.keys(bytes).map((b) => [b, -5])], byte_fallback: true},
  {type: 'WordPiece', vocab: letters(words), unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100},
  {type: 'WordPiece', vocab: letters(words), unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 5},
  {type: 'WordLevel', vocab: letters(words), unk_token: '[UNK]'},
];
const special = [
  [added(256, '<s>', {special: true})], [added(256, '<s>', {lstrip: true, rstrip: true}), added(257, 'abc')],
  [added(256, 'a', {single_word: true})], [added(256, 'abc'), added(257, 'abcab'), added(258, 'bc')],
  [added(256, 'hello', {normalized: true}), added(257, 'WORLD', {normalized: false})],
];
const post_processors = [
  {type: 'TemplateProcessing', single: [{SpecialToken: {id: 'B', type_id: 0}}, {Sequence: {id: 'A', type_id: 0}}, {SpecialToken: {id: 'E', type_id: 0}}],
    pair: [{Sequence: {id: 'A', type_id: 0}}, {Sequence: {id: 'B', type_id: 1}}],
    special_tokens: {B: {id: 'B', ids: [1, 2], tokens: ['x', 'y']}, E: {id: 'E', ids: [3], tokens: ['z']}}},
  {type: 'BertProcessing', sep: ['s', 7], cls: ['c', 8]},
  {type: 'RobertaProcessing', sep: ['s', 7], cls: ['c', 8], trim_offsets: true, add_prefix_space: true},
  {type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true},
  {type: 'Sequence', processors: [{type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true}, {type: 'TemplateProcessing',
    single: [{SpecialToken: {id: 'B', type_id: 0}}, {Sequence: {id: 'A', type_id: 0}}], pair: [{Sequence: {id: 'A', type_id: 0}}, {Sequence: {id: 'B', type_id: 1}}],
    special_tokens: {B: {id: 'B', ids: [9], tokens: ['x']}}}]},
];

const pieces = ['a', 'b', '\u2581', '\u2581the', 'ing', '##ing', '<0xE4>', '<0xBD>', '<0xA0>', '<0xFF>', '\u0120', 'caf', '\u00c3\u00a9', 'c</w>', ' .', "n't", '\u2581\u2581', ' x', '\u00e4', '\u00bd', 'z z', '<0x0A>', '<s>', '.'];
const spelled = {type: 'BPE', vocab: letters(pieces), merges: []};
const rows = [[0], [3, 4], [3, 5, 0, 3], [2, 0, 2, 1, 3], [6, 7, 8, 0, 6, 7], [6, 0, 9, 8], [10, 11, 12, 18], [18, 19, 20, 11], [0, 13, 13, 1], [0, 14, 1, 15, 23], [16, 0, 17], [22, 0, 22, 21], []];
const decoders = [
  null, {type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true}, {type: 'ByteFallback'}, {type: 'Fuse'},
  {type: 'Strip', content: ' ', start: 1, stop: 0}, {type: 'Strip', content: 'a', start: 0, stop: 1}, {type: 'Replace', pattern: {String: '\u2581'}, content: ' '},
  {type: 'Replace', pattern: {Regex: '[ab]'}, content: 'q'},
  ...['always', 'first', 'never'].map((prepend_scheme) => ({type: 'Metaspace', replacement: '\u2581', prepend_scheme, split: true})),
  {type: 'WordPiece', prefix: '##', cleanup: true}, {type: 'WordPiece', prefix: '##', cleanup: false}, {type: 'BPEDecoder', suffix: '</w>'},
  {type: 'Sequence', decoders: [{type: 'Replace', pattern: {String: '\u2581'}, content: ' '}, {type: 'ByteFallback'}, {type: 'Fuse'}, {type: 'Strip', content: ' ', start: 1, stop: 0}]},
];

const encodings = [
  ...normalizers.map((normalizer) => tokenizer({normalizer})), ...pre_tokenizers.map((pre_tokenizer) => tokenizer({pre_tokenizer})),
  ...models.flatMap((model) => [null, {type: 'WhitespaceSplit'}].map((pre_tokenizer) => tokenizer({model, pre_tokenizer}))),
  ...special.map((added_tokens) => tokenizer({added_tokens})),
  tokenizer({added_tokens: special[4], normalizer: {type: 'Lowercase'}}),
  ...post_processors.map((post_processor) => tokenizer({post_processor})),
];
(async () => {
  const out = {texts, encodings: [], rows, decodings: []};
  for (const json of encodings) {
    const made = Tokenizer.fromString(JSON.stringify(json));
    const ids = [];
    for (const text of texts) ids.push((await made.encode(text, null, {addSpecialTokens: true})).getIds());
    out.encodings.push({tokenizer: json, ids});
  }
  for (const decoder of decoders) {
    const json = tokenizer({decoder, model: spelled, added_tokens: [added(22, '<s>', {special: true})]});
    const made = Tokenizer.fromString(JSON.stringify(json));
    const text = [], skipped = [];
    for (const row of rows) {
      text.push(await made.decode(row, false));
      skipped.push(await made.decode(row, true));
    }
    out.decodings.push({tokenizer: json, text, skipped});
  }
  process.stdout.write(JSON.stringify(out) + '\n');
})();
