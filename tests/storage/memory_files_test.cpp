// SPDX-License-Identifier: Apache-2.0

#include "storage/memory_files.hpp"

#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::storage::memory_files_test {
namespace {

using Named = MemoryFiles::Named;

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string read(const std::string& path) {
  const auto mapped = real_file_system().map(path, 1 << 20);
  EXPECT_TRUE(mapped) << mapped.error().text();
  return mapped ? std::string(as_text(mapped->bytes())) : std::string();
}

TEST(MemoryFiles, HaveAPathWhileTheyLast) {
  std::string path;
  {
    const Named one{"model.gguf", bytes_of("all of it")};
    const auto made = MemoryFiles::make({&one, 1});
    ASSERT_TRUE(made) << made.error().text();
    path = made->path();
    EXPECT_EQ(read(path), "all of it");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MemoryFiles, AreAFolderWhereTheyAreSeveral) {
  std::string path;
  std::vector<MappedFile> outlasts;
  {
    const std::vector<Named> files{{"config.json", bytes_of("{}")},
                                   {"model.safetensors", bytes_of(std::string_view())}};
    auto made = MemoryFiles::make(files);
    ASSERT_TRUE(made) << made.error().text();
    const MemoryFiles moved = *std::move(made);
    path = moved.path();
    EXPECT_TRUE(std::filesystem::is_directory(path));
    EXPECT_TRUE(std::filesystem::is_regular_file(path + "/model.safetensors"));
    EXPECT_EQ(read(path + "/config.json"), "{}");
    outlasts.push_back(real_file_system().map(path + "/config.json", 8).value());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(as_text(outlasts[0].bytes()), "{}");
}

TEST(MemoryFiles, RefuseNamesThatAreNone) {
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/etc/passwd"), std::string("a\0b", 3), std::string(256, 'a')}) {
    const std::vector<Named> files{{"config.json", {}}, {name, {}}};
    const auto made = MemoryFiles::make(files);
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code(), Errc::invalid_argument);
  }
  const std::vector<Named> twice{{"a", {}}, {"a", {}}};
  EXPECT_EQ(MemoryFiles::make(twice).error().code(), Errc::duplicate_name);
  EXPECT_EQ(MemoryFiles::make({}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(MemoryFiles::make(std::vector<Named>(4097, {"a", {}})).error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace weft::storage::memory_files_test
