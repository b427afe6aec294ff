// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/gguf/gguf.hpp"
#include "text/tokenizer.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/text/golden_files.hpp"
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace weft::text {

/// The metadata of a GGUF file, unpacked where it ends with ".zst".
inline formats::GgufMetadata metadata_of(const std::string& path) {
  const std::string text = read_golden(path);
  ByteBuffer bytes(text.size());
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(bytes.data()));
  const auto file = formats::decode_gguf(storage::MappedFile(std::move(bytes)), path);
  EXPECT_TRUE(file) << file.error().text();
  return file->metadata();
}

/// llama.cpp's 46 texts with the ids that Hugging Face's tokenizer gives them, without what is added around a text.
inline void compare_vocabulary(const std::string& name, const Tokenizer& tokenizer) {
  const std::string in = read_golden(shared_data("language/ggml-vocab/ggml-vocab-" + name + ".gguf.inp"));
  std::istringstream out(read_golden(shared_data("language/ggml-vocab/ggml-vocab-" + name + ".gguf.out")));
  const std::string mark = "\n__ggml_vocab_test__\n";
  std::size_t texts = 0;
  for (std::size_t begin = 0; begin < in.size(); ++texts) {
    const std::size_t end = std::min(in.find(mark, begin), in.size());
    std::string line;
    ASSERT_TRUE(std::getline(out, line));
    std::istringstream numbers(line);
    std::vector<TokenId> wanted;
    for (TokenId id = 0; numbers >> id;) wanted.push_back(id);
    EXPECT_EQ(*tokenizer.encode(in.substr(begin, end - begin), {.add_special = false, .parse_special = false}), wanted)
        << name << ": " << in.substr(begin, end - begin);
    begin = end + mark.size();
  }
  EXPECT_EQ(texts, 46u);
}

}  // namespace weft::text
