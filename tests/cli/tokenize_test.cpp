// SPDX-License-Identifier: Apache-2.0
// Models of others: their tokens, and what is in their files.

#include "tests/cli/program.hpp"
#include "tests/support/shared_data.hpp"
#include <cstdint>

namespace weft::cli_test::tokenize_test {
namespace {

const std::string kTokenizer =
    R"({"added_tokens":[{"id":5,"content":"<s>","special":true,"normalized":false}],)"
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2," ":3,"\u001b":4},"merges":["a b"]},)"
    R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
    R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[5],"tokens":["<s>"]}}},)"
    R"("decoder":{"type":"Fuse"}})";

/// A number's bytes, little-endian.
template <class T>
std::string bytes(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::string safetensors(const std::string& header, std::size_t data) {
  return bytes(std::uint64_t{header.size()}) + header + std::string(data, '\0');
}
const std::string kHeader =
    R"({"__metadata__":{"format":"pt"},"model.norm.weight":{"dtype":"F32","shape":[4],)"
    R"("data_offsets":[0,16]},"\u001b[31m":{"dtype":"F16","shape":[2,3],"data_offsets":[16,28]}})";

bool has_controls(const std::string& text) { return text.find_first_of("\x1b\x9b") != text.npos; }

TEST(Tokenize, ShowsTokensInEachOfItsForms) {
  Folder folder;
  const std::string file = folder / "tokenizer.json";
  write_file(file, kTokenizer);
  EXPECT_EQ(weft({"tokenize", file, "abba", "--ids"}).out, "5 2 1 0\n");
  EXPECT_EQ(weft({"tokenize", file.substr(0, file.rfind('/')), "abba", "--ids"}).out, "5 2 1 0\n")
      << "a model's folder";
  EXPECT_EQ(weft({"tokenize", file, "<s>ab", "--ids", "--no-special"}).out, "5 2\n");
  EXPECT_EQ(weft({"tokenize", file, "<s>ab", "--ids", "--no-special", "--literal"}).out, "2\n");
  const Json told = weft({"tokenize", file, "ab b", "--json"}).last();
  EXPECT_EQ(told, Json::parse(R"({"ids":[5,2,3,1],"tokens":["<s>","ab"," ","b"],"bytes":4,"decoded":"<s>ab b"})"));
  const std::string table = weft({"tokenize", file, "ab\x1b"}).out;
  for (const char* const wanted : {"<s>", "special", "\\x1b", "3 tokens of 3 bytes"})
    EXPECT_NE(table.find(wanted), table.npos) << wanted << " in:\n" << table;
  EXPECT_FALSE(has_controls(table));
}

TEST(Tokenize, MakesATableOfSequences) {
  Folder folder;
  const std::string file = folder / "t.json";
  write_file(file, kTokenizer);
  const auto told = [&](const char* text) {
    return weft({"tokenize", file, "--no-special", "--samples", "2", "--", text});
  };
  // ab a b a ab: what is behind a sequence's last token begins the next one.
  EXPECT_EQ(told("aba ab").out, "t0,t1,n0,n1\n2,0,0,3\n");
  EXPECT_EQ(told("abaa ab").out, "t0,t1,n0,n1\n2,0,0,0\n0,3,3,2\n");
  const auto shorter = told("aba");
  EXPECT_EQ(shorter.exit, 2);
  EXPECT_NE(shorter.err.find("--samples 2: the text has 2 tokens"), shorter.err.npos) << shorter.err;
  for (const char* const other : {"--ids", "--json", "--decode"})
    EXPECT_EQ(weft({"tokenize", file, "abaa", "--samples", "2", other}).exit, 2) << other;
}

TEST(InspectTokenizer, SaysWhatItsStepsAre) {
  Folder folder;
  const std::string file = folder / "t.json";
  write_file(file, R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]},)"
                   R"("pre_tokenizer":{"type":"Digits","individual_digits":true},)" +
                       kTokenizer.substr(1));
  const Json told = weft({"inspect", file, "--json"}).last();
  EXPECT_EQ(told["kind"], "tokenizer");
  EXPECT_EQ(told["model"], "BPE");
  EXPECT_EQ(told["vocabulary"], Json(5));
  EXPECT_EQ(told["merges"], Json(1));
  EXPECT_EQ(told["tokens"], Json(6)) << "one more than the highest id";
  EXPECT_EQ(told["normalizer"], Json::parse(R"([{"type":"NFC"},{"type":"Lowercase"}])"));
  EXPECT_EQ(told["pre_tokenizer"], Json::parse(R"([{"type":"Digits","individual_digits":true}])"));
  EXPECT_EQ(told["decoder"], Json::parse(R"([{"type":"Fuse"}])"));
  EXPECT_EQ(told["post_processor"][0]["type"], "TemplateProcessing");
  EXPECT_EQ(told["added_tokens"][0]["content"], "<s>");
  EXPECT_EQ(told["adds"], Json::parse(R"(["<s>"])"));
  EXPECT_TRUE(told["template"].is_null());
  EXPECT_TRUE(told["warnings"].empty());
  write_file(folder / "chat_template.jinja", "{{ messages[0].content }}");
  write_file(folder / "generation_config.json", R"({"eos_token_id":1,"do_sample":true,"temperature":0.6})");
  EXPECT_EQ(weft({"inspect", file, "--json"}).last()["sampling"], Json("do_sample true, temperature 0.6"));
  EXPECT_EQ(weft({"inspect", file, "--json"}).last()["template"],
            Json::parse(R"({"file":"chat_template.jinja","tools":false,"refused":null})"));
  const std::string text = weft({"inspect", file}).out;
  for (const char* const wanted :
       {"BPE, 5 in the vocabulary, 1 merges", "normalizer     NFC\n               Lowercase",
        "Digits: individual_digits", "adds to a text <s>", "template       chat_template.jinja", "special"})
    EXPECT_NE(text.find(wanted), text.npos) << wanted << " in:\n" << text;
}

TEST(InspectTokenizer, WarnsOfWhatIsNotReadAndRefusesWhatIsNone) {
  Folder folder;
  const std::string file = folder / "tokenizer.json";
  write_file(file, R"({"normalizer":{"type":"Nm\u001bt"},"model":{"type":"Unigram","unk_id":0,"vocab":[["a",-1]],)"
                   R"("secret":")" +
                       std::string(5000, 'x') + R"("}})");
  const Json told = weft({"inspect", file, "--json"}).last();
  EXPECT_EQ(told["model"], "Unigram");
  EXPECT_EQ(told["vocabulary"], Json(1));
  EXPECT_TRUE(told["tokens"].is_null());
  EXPECT_EQ(told["options"]["secret"], Json::parse(R"({"characters":5000})"));
  ASSERT_EQ(told["warnings"].size(), 1u);
  EXPECT_NE(told["warnings"][0].get<std::string>().find("weft tokenize: "), std::string::npos);
  EXPECT_FALSE(has_controls(weft({"inspect", file}).out));
  for (const char* const wrong : {"", "[]", "{", R"({"added_tokens": []})", R"({"model": 1})"}) {
    write_file(file, wrong);
    const auto done = weft({"inspect", file});
    EXPECT_EQ(done.exit, 3) << wrong;
    EXPECT_NE(done.err.find("tokenizer.json"), done.err.npos) << done.err;
    EXPECT_EQ(done.out, "") << wrong;
  }
}

TEST(Tokenize, DecodesNumbers) {
  Folder folder;
  const std::string file = folder / "t.json";
  write_file(file, kTokenizer);
  EXPECT_EQ(weft({"tokenize", file, "5 2,1\n0", "--decode"}).out, "<s>abba");
  EXPECT_EQ(weft({"tokenize", file, "5 2 1 0", "--decode", "--no-special"}).out, "abba");
  EXPECT_EQ(weft({"tokenize", file, "4", "--decode"}).out, "\x1b") << "as it is, where nobody reads a terminal";
  const auto unknown = weft({"tokenize", file, "5 99 0", "--decode"});
  EXPECT_EQ(unknown.exit, 3);
  EXPECT_EQ(unknown.out, "");
  EXPECT_NE(unknown.err.find("no token 99 in " + file), std::string::npos) << unknown.err;
  EXPECT_EQ(weft({"tokenize", file, "99", "--decode", "--json"}).last()["tokens"], Json::parse("[null]"));
  for (const char* const wrong : {"x", "-1", "4294967296", "1.5", "0x1"}) {
    const auto done = weft({"tokenize", file, "--decode", "--", wrong});
    EXPECT_EQ(done.exit, 2) << wrong;
    EXPECT_NE(done.err.find(wrong), done.err.npos) << done.err;
  }
  EXPECT_EQ(weft({"tokenize", file, "1", "--decode", "--ids"}).exit, 2);
}

TEST(Tokenize, TakesAnEmptyTextAndWarnsOfBytes) {
  Folder folder;
  const std::string file = folder / "t.json";
  write_file(file, kTokenizer);
  EXPECT_EQ(weft({"tokenize", file, "", "--ids"}).out, "5\n") << "what begins each text";
  EXPECT_EQ(weft({"tokenize", file, "a", "--ids"}).err, "");
  const auto odd = weft({"tokenize", file, "a\xff", "--ids"});
  EXPECT_EQ(odd.exit, 0);
  EXPECT_NE(odd.err.find("TEXT: byte 1 is not UTF-8"), std::string::npos) << odd.err;
}

TEST(Tokenize, SaysWhatIsWrongWithAFile) {
  Folder folder;
  const std::string file = folder / "t.json";
  write_file(file, R"({"model":{"type":"\u001b[31m"}})");
  const auto done = weft({"tokenize", file, "a"});
  EXPECT_EQ(done.exit, 3);
  EXPECT_TRUE(done.err.starts_with("weft: error: " + file)) << done.err;
  EXPECT_FALSE(has_controls(done.err));
  EXPECT_EQ(weft({"tokenize", folder / "absent", "a"}).exit, 3);
  EXPECT_EQ(weft({"tokenize", kDigits, "a"}).exit, 3) << "a network";
}

TEST(Tokenize, TakesWhatImportMade) {
  const std::string source = shared_data("stories260K/derived");
  if (source.empty()) GTEST_SKIP() << "no ../shared/data";
  Folder folder;
  const std::string entity = folder / "m.entity", gguf = folder / "m.gguf", again = folder / "n.entity";
  ASSERT_EQ(weft({"import", source, "-o", entity}).exit, 0);
  ASSERT_EQ(weft({"export", entity, "--format", "gguf", "-o", gguf}).exit, 0);
  ASSERT_EQ(weft({"import", gguf, "-o", again}).exit, 0);
  const std::string ids = weft({"tokenize", source, "Once upon", "--ids"}).out;
  EXPECT_FALSE(ids.empty());
  for (const std::string& file : {entity, gguf, again})
    EXPECT_EQ(weft({"tokenize", file, "Once upon", "--ids"}).out, ids) << file;
  const Outcome weights = weft({"tokenize", source + "/model.safetensors", "Once"});
  EXPECT_EQ(weights.exit, 3);
  EXPECT_NE(weights.err.find("a safetensors file has weights and no tokenizer"), std::string::npos) << weights.err;
  const std::string bare = folder / "bare.entity";
  const std::string graph = folder / "g.onnx";
  write_file(graph, read_file(source_path("tests/data/fuzz/onnx/gemm")));
  ASSERT_EQ(weft({"import", graph, "-o", bare}).exit, 0);
  const Outcome none = weft({"tokenize", bare, "Once"});
  EXPECT_EQ(none.exit, 3);
  EXPECT_NE(none.err.find("holds no tokenizer"), std::string::npos) << none.err;
}

TEST(Inspect, ShowsModelsOfOthers) {
  Folder folder;
  write_file(folder / "m.bin", safetensors(kHeader, 28));
  const Json told = weft({"inspect", folder / "m.bin", "--json"}).last();
  EXPECT_EQ(told["kind"], "safetensors");
  EXPECT_EQ(told["parameters"], 10);
  EXPECT_EQ(told["weight_bytes"], 28);
  EXPECT_EQ(told["metadata"], Json::parse(R"({"format":"pt"})"));
  EXPECT_EQ(told["tensors"][0], Json::parse(R"({"name":"model.norm.weight","type":"float32","shape":[4],"bytes":16})"));
  const std::string text = weft({"inspect", folder / "m.bin"}).out;
  EXPECT_FALSE(has_controls(text));
  for (const char* const wanted : {"safetensors", "model.norm.weight", "\\x1b[31m", "[2, 3]", "float16", "10 in 28 B"})
    EXPECT_NE(text.find(wanted), text.npos) << wanted << " in:\n" << text;
}

TEST(Inspect, ShowsHuggingFaceFolders) {
  Folder folder;
  const std::string path = (folder / "x").substr(0, (folder / "x").size() - 2);
  write_file(folder / "config.json", R"({"model_type":"llama","hidden_size":4,"title":"\u001b[31m"})");
  EXPECT_EQ(weft({"inspect", path}).exit, 3) << "no weights";
  write_file(folder / "model.safetensors", safetensors(kHeader, 28));
  const Json told = weft({"inspect", path, "--json"}).last();
  EXPECT_EQ(told["kind"], "hugging_face");
  EXPECT_EQ(told["family"], "llama");
  EXPECT_EQ(told["metadata"]["config.hidden_size"], 4);
  EXPECT_EQ(told["parameters"], 10);
  const std::string text = weft({"inspect", path}).out;
  EXPECT_NE(text.find("Hugging Face folder, family llama"), text.npos) << text;
  EXPECT_EQ(told["unread"], Json::parse(R"(["title"])"));
  EXPECT_NE(text.find("not read    config.json: title"), text.npos) << text;
  EXPECT_NE(text.find("not supported: config.json.vocab_size: is not there"), text.npos) << text;
  write_file(folder / "config.json", R"({"model_type":"mamba"})");
  EXPECT_EQ(weft({"inspect", path, "--json"}).last()["is_supported"], false);
  EXPECT_NE(weft({"inspect", path}).out.find("family mamba (not supported)"), text.npos);
  EXPECT_FALSE(has_controls(text));
  // Cut short, and with a config that is none.
  write_file(folder / "model.safetensors", safetensors(kHeader, 20));
  EXPECT_EQ(weft({"inspect", path}).exit, 3);
  write_file(folder / "config.json", "{");
  const auto done = weft({"inspect", path});
  EXPECT_EQ(done.exit, 3);
  EXPECT_NE(done.err.find("config.json:1:"), done.err.npos) << done.err;
}

TEST(Inspect, ShowsGgufFiles) {
  Folder folder;
  const auto text = [](const std::string& value) { return bytes(std::uint64_t{value.size()}) + value; };
  std::string file = "GGUF" + bytes(std::uint32_t{3}) + bytes(std::int64_t{1}) + bytes(std::int64_t{2});
  file += text("general.architecture") + bytes(std::uint32_t{8}) + text("llama");
  file += text("list") + bytes(std::uint32_t{9}) + bytes(std::uint32_t{4}) + bytes(std::uint64_t{10});
  for (std::uint32_t i = 0; i < 10; ++i) file += bytes(i);
  file += text("w") + bytes(std::uint32_t{2}) + bytes(std::int64_t{32}) + bytes(std::int64_t{2}) +
          bytes(std::uint32_t{2}) + bytes(std::uint64_t{0});
  file.resize((file.size() + 31) / 32 * 32);
  file.resize(file.size() + 64);
  write_file(folder / "m.gguf", file);
  const Json told = weft({"inspect", folder / "m.gguf", "--json"}).last();
  EXPECT_EQ(told["kind"], "gguf");
  EXPECT_EQ(told["family"], "llama");
  EXPECT_EQ(told["metadata"]["list"],
            Json::parse(R"({"type":"array of u32","elements":10,"first":[0,1,2,3,4,5,6,7]})"));
  EXPECT_EQ(told["tensors"], Json::parse(R"([{"name":"w","type":"q4_0","shape":[2,32],"bytes":36}])"));
  EXPECT_NE(weft({"inspect", folder / "m.gguf"}).out.find("GGUF, family llama"), std::string::npos);
}

}  // namespace
}  // namespace weft::cli_test::tokenize_test
