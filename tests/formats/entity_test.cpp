// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/entity.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "entity_files.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft::formats::entity_test {
namespace {

using namespace entity_files;

TEST(Entity, WritesTheBytesThatASecondWriterMadeFromTheDocument) {
  const auto golden = storage::real_file_system().read(source_path("tests/data/formats/golden.entity"), 1 << 20);
  ASSERT_TRUE(golden) << golden.error().text();
  EXPECT_TRUE(same(Golden().encode(), *golden));
}

TEST(Entity, GivesBackWhatWasSavedAndSavesItTheSame) {
  const Golden golden;
  const ByteBuffer bytes = golden.encode();
  EXPECT_EQ(bytes.size() % 64, 0u);
  const auto file = decode_entity(ByteSpan(bytes));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->network(), golden.network);
  EXPECT_EQ(file->meta(), golden.meta);
  ASSERT_EQ(file->tensors().size(), golden.blobs.size());
  for (std::size_t i = 0; i < golden.blobs.size(); ++i) {
    const Tensor& blob = file->tensors()[i];
    EXPECT_EQ(blob.name, golden.blobs[i].name);
    EXPECT_EQ(blob.type, golden.blobs[i].type);
    EXPECT_EQ(blob.shape, golden.blobs[i].shape);
    EXPECT_TRUE(same(blob.bytes, golden.blobs[i].bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blob.bytes.data()) % 64, 0u);
  }
  const auto weights = file->values<float>("layers/0,0,0,0/weights", {2, 3});
  ASSERT_TRUE(weights);
  EXPECT_TRUE(same(std::as_bytes(*weights), std::as_bytes(std::span(kWeights))));
  EXPECT_EQ(file->values<std::uint64_t>("state/tick")->front(), kTick[0]);
  EXPECT_TRUE(same(*encode_entity(file->network(), file->meta(), file->tensors()), bytes));
}

TEST(Entity, LookupsNameWhatIsWrong) {
  const auto file = decode_entity(Golden().encode());
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->contains("signs"));
  EXPECT_EQ(file->find("sign").error().code(), Errc::not_found);
  EXPECT_EQ(file->values<float>("layers/0,0,0,0/weights", {3, 2}).error().text(),
            "tensor 'layers/0,0,0,0/weights': is float32 [2, 3], expected float32 [3, 2]");
  EXPECT_EQ(file->values<double>("layers/0,0,0,0/weights").error().code(), Errc::shape_mismatch);
}

TEST(Entity, RefusesEveryTruncation) {
  const ByteBuffer bytes = Golden().encode();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(decode_entity(ByteSpan(bytes.data(), size))) << "cut to " << size << " of " << bytes.size();
}

TEST(Entity, RefusesEveryFlippedBit) {
  const ByteBuffer bytes = Golden().encode();
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flipped = std::to_integer<std::uint8_t>(bytes[bit / 8] ^ static_cast<std::byte>(1u << bit % 8));
    ASSERT_FALSE(decode_entity(changed(bytes, bit / 8, flipped))) << "bit " << bit;
  }
}

TEST(Entity, RefusesWhateverFollows) {
  const ByteBuffer bytes = Golden().encode();
  for (const std::size_t more : {1u, 63u, 64u, 4096u}) {
    ByteBuffer longer(bytes.size() + more);
    std::memcpy(longer.data(), bytes.data(), bytes.size());
    EXPECT_EQ(decode_entity(std::move(longer)).error().code(), Errc::corrupt) << more;
  }
}

struct Malformed {
  const char* what;
  std::string header;
  Errc code;
  const char* text;  ///< must be part of the error's text
};

TEST(Entity, RefusesMalformedHeadersWhoseChecksumFits) {
  // 128 bytes of zeros follow each header.
  const std::string a = row("a", "bytes", "[64]", "0", "64", 64);
  const std::vector<Malformed> table{
      {"nothing", "", Errc::parse_failed, "header:1:1"},
      {"not an object", "[]", Errc::parse_failed, "expected an object"},
      {"cut JSON", R"({"network":1)", Errc::parse_failed, "header:1:"},
      {"no blobs", R"({"network":1,"meta":1})", Errc::not_found, "\"blobs\" is missing"},
      {"no network", R"({"blobs":[],"meta":1})", Errc::not_found, "\"network\" is missing"},
      {"unknown key", R"({"network":1,"meta":1,"blobs":[],"blob":1})", Errc::unknown_name, "did you mean 'blobs'?"},
      {"duplicate key", R"({"network":1,"network":2,"meta":1,"blobs":[]})", Errc::duplicate_name, "given twice"},
      {"deep", R"({"network":)" + std::string(100000, '[') + "1", Errc::too_large, "nested deeper than 66"},
      {"blobs no array", R"({"network":1,"meta":1,"blobs":{}})", Errc::parse_failed, "blobs: found an object"},
      {"row no object", with("7"), Errc::parse_failed, "blobs[0]: found 7"},
      {"unknown row key", with(a.substr(0, a.size() - 1) + R"(,"sizes":1})"), Errc::unknown_name, "blobs[0].sizes"},
      {"bytes left over", with(a), Errc::corrupt, "64 bytes after the last blob"},
      {"overlap", with(a + "," + row("b", "bytes", "[64]", "0", "64", 64)), Errc::corrupt, "offset 0"},
      {"half overlap", with(a + "," + row("b", "bytes", "[64]", "32", "64", 64)), Errc::corrupt, "offset 32"},
      {"gap", with(a + "," + row("b", "bytes", "[64]", "128", "64", 64)), Errc::corrupt, "offset 128"},
      {"backwards", with(row("b", "bytes", "[64]", "64", "64", 64) + "," + a), Errc::corrupt, "offset 64"},
      {"duplicate name", with(a + "," + row("a", "bytes", "[64]", "64", "64", 64)), Errc::duplicate_name, "twice"},
      {"past the end", with(row("a", "bytes", "[129]", "0", "129", 129)), Errc::corrupt, "leave the file"},
      {"size 2^64-1", with(row("a", "bytes", "[1]", "0", "18446744073709551615")), Errc::corrupt, "leave the file"},
      {"size wraps", with(a + "," + row("b", "bytes", "[1]", "64", "18446744073709551552")), Errc::corrupt, "leave"},
      {"size above 64 bits", with(row("a", "bytes", "[1]", "0", "18446744073709551616")), Errc::parse_failed,
       "does not fit 64 bits"},
      {"negative size", with(row("a", "bytes", "[1]", "0", "-1")), Errc::out_of_range, "blobs[0].size"},
      {"size with a fraction", with(row("a", "bytes", "[1]", "0", "1.0")), Errc::parse_failed, "blobs[0].size"},
      {"shape does not fit", with(row("a", "float32", "[33]", "0", "128", 128)), Errc::shape_mismatch, "132 bytes"},
      {"shape overflows", with(row("a", "bytes", "[4294967296,4294967296]", "0", "0")), Errc::too_large, "2^40"},
      {"shape overflows to a fit", with(row("a", "bytes", "[9223372036854775808,2,64]", "0", "64", 64)),
       Errc::too_large, "2^40"},
      {"shape overflows behind a zero", with(row("a", "bytes", "[0,18446744073709551615,2]", "0", "0")),
       Errc::too_large, "2^40"},
      {"negative extent", with(row("a", "bytes", "[-1]", "0", "1")), Errc::out_of_range, "shape[0]"},
      {"17 dimensions", with(row("a", "bytes", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "0", "1", 1)), Errc::out_of_range,
       "17"},
      {"unknown type", with(row("a", "float31", "[32]", "0", "128", 128)), Errc::unknown_name, "\"float31\""},
      {"no name", with(row("", "bytes", "[128]", "0", "128", 128)), Errc::parse_failed, "cannot name a blob"},
      {"space in a name", with(row("a b", "bytes", "[128]", "0", "128", 128)), Errc::parse_failed, "cannot name"},
      {"NUL in a name", with(row("a\\u0000", "bytes", "[128]", "0", "128", 128)), Errc::parse_failed, "\\x00"},
      {"long name", with(row(std::string(513, 'a'), "bytes", "[128]", "0", "128", 128)), Errc::out_of_range, "512"},
      {"wrong digest", with(row("a", "bytes", "[128]", "0", "128", 127)), Errc::corrupt, "hash"},
  };
  for (const Malformed& entry : table) {
    const auto file = decode_entity(sealed(entry.header, 128), "x.entity");
    ASSERT_FALSE(file) << entry.what;
    EXPECT_EQ(name(file.error().code()), name(entry.code)) << entry.what << ": " << file.error().text();
    EXPECT_NE(file.error().text().find(entry.text), std::string::npos) << entry.what << ": " << file.error().text();
    EXPECT_EQ(file.error().text().substr(0, 10), "x.entity: ") << file.error().text();
    EXPECT_LT(file.error().text().size(), 1000u) << entry.what;
  }
  EXPECT_TRUE(decode_entity(sealed(with(row("a", "bytes", "[128]", "0", "128", 128)), 128)))
      << "the table's frame itself must be sound";
}

TEST(Entity, RefusesPaddingThatIsNotZero) {
  ByteBuffer bytes = sealed(with(row("a", "bytes", "[1]", "0", "1", 1)), 64);
  ASSERT_TRUE(decode_entity(ByteSpan(bytes)));
  bytes[bytes.size() - 1] = std::byte{1};
  EXPECT_EQ(decode_entity(std::move(bytes)).error().code(), Errc::corrupt);
}

TEST(Entity, NamesOtherVersionsFlagsAndForeignFiles) {
  const ByteBuffer bytes = Golden().encode();
  EXPECT_EQ(decode_entity(changed(bytes, 8, 1)).error().text(), "entity: version 1, this build reads version 2");
  EXPECT_EQ(decode_entity(changed(bytes, 8, 3)).error().code(), Errc::unsupported);
  EXPECT_EQ(decode_entity(changed(bytes, 10, 0x82)).error().text(),
            "entity: flags 130: of those that a reader must understand, 130 are unknown to this build; a newer one "
            "reads it");
  EXPECT_EQ(decode_entity(changed(bytes, 0, 'e')).error().code(), Errc::parse_failed);
  EXPECT_EQ(decode_entity(as_bytes("{\"weft\": 2}")).error().code(), Errc::parse_failed);
  // A header length that no file can have, and one that only a huge file has.
  for (const std::size_t byte : {18u, 19u, 20u, 23u}) EXPECT_FALSE(decode_entity(changed(bytes, byte, 0xFF)));
}

TEST(Entity, RefusesToWriteWhatItWouldNotRead) {
  const std::vector<std::byte> two = bytes_of(1, 2);
  const auto code = [](const Json& network, std::vector<Tensor> blobs) {
    return encode_entity(network, Json(), blobs).error().code();
  };
  EXPECT_EQ(code({}, {{"a", "bytes", {3}, two}}), Errc::shape_mismatch);
  EXPECT_EQ(code({}, {{"a", "float31", {2}, two}}), Errc::unknown_name);
  EXPECT_EQ(code({}, {{"a", "bytes", {2}, two}, {"a", "bytes", {2}, two}}), Errc::duplicate_name);
  EXPECT_EQ(code({}, {{"a b", "bytes", {2}, two}}), Errc::parse_failed);
  EXPECT_EQ(code({}, {{"a", "int4", {3}, bytes_of(0, 0x12)}}), Errc::corrupt) << "a bit after the last element";
  EXPECT_EQ(code({}, {{"a", "bytes", {std::size_t{1} << 41}, two}}), Errc::too_large);
  EXPECT_EQ(code(Json(std::nan("")), {}), Errc::invalid_argument);
  EXPECT_EQ(code(Json("\xFF"), {}), Errc::invalid_argument);
  Json deep = 1;
  for (int i = 0; i < 100000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(code(deep, {}), Errc::too_large);
}

TEST(Entity, TakesTheDeepestNetworkThatParses) {
  Json deep = 1;
  for (int i = 0; i < 64; ++i) deep = Json::array({std::move(deep)});
  const auto bytes = encode_entity(deep, deep, {});
  ASSERT_TRUE(bytes) << bytes.error().text();
  const auto file = decode_entity(ByteSpan(*bytes));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->network(), deep);
}

TEST(Entity, SizesEveryTypeToTheBit) {
  EXPECT_EQ(*tensor_size("bytes", {3, 5}), 15u);
  EXPECT_EQ(*tensor_size("u64", {}), 8u);
  EXPECT_EQ(*tensor_size("float16", {3}), 6u);
  EXPECT_EQ(*tensor_size("fp4", {3}), 2u);
  EXPECT_EQ(*tensor_size("ternary", {5}), 2u);
  EXPECT_EQ(*tensor_size("binary", {9}), 2u);
  EXPECT_EQ(*tensor_size("float64", {0, 7}), 0u);
  EXPECT_EQ(tensor_size("f32", {1}).error().code(), Errc::unknown_name);
}

TEST(Entity, OutlivesItsCopies) {
  std::vector<Tensor> blobs;
  std::optional<EntityFile> kept;
  {
    auto file = decode_entity(Golden().encode());
    kept = *file;
    blobs = file->tensors();
  }
  EXPECT_TRUE(same(blobs[0].bytes, std::as_bytes(std::span(kWeights))));
}

TEST(Entity, LoadsWhatWasWrittenAndNamesThePathOtherwise) {
  const storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/m.entity";
  const Golden golden;
  const auto source = entity_source(golden.network, golden.meta, golden.blobs);
  ASSERT_TRUE(source) << source.error().text();
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), path, *source));
  const auto file = load_entity(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->size(), golden.encode().size());
  EXPECT_EQ(file->hash(), decode_entity(golden.encode())->hash());
  EXPECT_EQ(load_entity(storage::real_file_system(), path + "x").error().code(), Errc::not_found);
  std::filesystem::resize_file(path, 100);
  EXPECT_EQ(load_entity(storage::real_file_system(), path).error().text().substr(0, path.size() + 2), path + ": ");
}

}  // namespace
}  // namespace weft::formats::entity_test
