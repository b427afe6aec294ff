// SPDX-License-Identifier: Apache-2.0
// Packed blobs, and what a reader does with what it does not know.

#include "formats/entity/entity.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include <zstd.h>

#include "entity_files.hpp"
#include <cmath>
#include <numeric>

namespace weft::formats::entity_packed_test {
namespace {

using namespace entity_files;
const EntityOptions kPacked{.packing = Packing::zstd};

std::string hex(ByteSpan bytes) { return to_string(hash_bytes(bytes.data(), bytes.size())); }

std::vector<std::byte> zstd(const std::vector<std::byte>& bytes, bool states_size = true) {
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, states_size);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return out;
}

/// A file of one packed blob of bytes, as the header says it is.
struct OnePacked {
  std::vector<std::byte> raw = std::vector<std::byte>(1000, std::byte{7}), stored = zstd(raw);
  Json row{{"name", "a"},
           {"type", "bytes"},
           {"shape", {1000}},
           {"offset", 0},
           {"size", 1000},
           {"packed", "zstd"},
           {"stored", stored.size()},
           {"xxh3_128", hex(raw)},
           {"stored_xxh3_128", hex(stored)}};
  std::uint16_t flags = 1;

  ByteBuffer encode() const {
    return sealed(Json{{"network", 1}, {"meta", nullptr}, {"blobs", {row}}}.dump(), stored, flags);
  }
  void store(std::vector<std::byte> bytes) {
    stored = std::move(bytes);
    row["stored"] = stored.size();
    row["stored_xxh3_128"] = hex(stored);
  }
};

TEST(PackedEntity, GivesBackWhatWasSavedAndSavesItTheSame) {
  Golden golden;
  // Values that pack well, beside the small ones that do not.
  std::vector<float> ramp(100000);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i / 64);
  golden.blobs.push_back(make_tensor<float>("ramp", ramp));
  const auto plain = encode_entity(golden.network, golden.meta, golden.blobs);
  const auto packed = encode_entity(golden.network, golden.meta, golden.blobs, kPacked);
  ASSERT_TRUE(plain && packed);
  EXPECT_LT(packed->size() * 4, plain->size());
  const auto file = decode_entity(ByteSpan(*packed));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->packing(), Packing::zstd);
  ASSERT_EQ(file->tensors().size(), golden.blobs.size());
  for (std::size_t i = 0; i < golden.blobs.size(); ++i) {
    EXPECT_TRUE(same(file->tensors()[i].bytes, golden.blobs[i].bytes)) << golden.blobs[i].name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->tensors()[i].bytes.data()) % 64, 0u);
  }
  EXPECT_TRUE(same(*encode_entity(file->network(), file->meta(), file->tensors(), kPacked), *packed));
  EXPECT_TRUE(same(*encode_entity(file->network(), file->meta(), file->tensors()), *plain)) << "unpacked again";
}

TEST(PackedEntity, IsPlainWhereNothingGetsSmaller) {
  const Golden golden;
  const auto packed = encode_entity(golden.network, golden.meta, golden.blobs, kPacked);
  EXPECT_TRUE(same(*packed, golden.encode())) << "70 bytes in one frame still take two lines of 64";
}

TEST(PackedEntity, RefusesEveryTruncationAndEveryFlippedBit) {
  const ByteBuffer bytes = OnePacked().encode();
  ASSERT_TRUE(decode_entity(ByteSpan(bytes))) << decode_entity(ByteSpan(bytes)).error().text();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(decode_entity(ByteSpan(bytes.data(), size))) << size;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flipped = std::to_integer<std::uint8_t>(bytes[bit / 8] ^ static_cast<std::byte>(1u << bit % 8));
    ASSERT_FALSE(decode_entity(changed(bytes, bit / 8, flipped))) << "bit " << bit;
  }
}

TEST(PackedEntity, RefusesFramesThatAreNotWhatTheHeaderSays) {
  struct Case {
    const char* what;
    void (*spoil)(OnePacked&);
    Errc code;
    const char* text;
  };
  const Case table[] = {
      {"unknown packing", [](OnePacked& f) { f.row["packed"] = "lz4"; }, Errc::unsupported, "\"lz4\""},
      {"no flag", [](OnePacked& f) { f.flags = 0; }, Errc::unknown_name, "packed"},
      {"a flag and nothing packed",
       [](OnePacked& f) {
         f.stored = f.raw;
         f.row.erase("packed"), f.row.erase("stored"), f.row.erase("stored_xxh3_128");
       },
       Errc::corrupt, "none is"},
      {"no stored size", [](OnePacked& f) { f.row.erase("stored"); }, Errc::not_found, "\"stored\""},
      {"no stored hash", [](OnePacked& f) { f.row.erase("stored_xxh3_128"); }, Errc::not_found, "stored_xxh3_128"},
      {"stored past the end", [](OnePacked& f) { f.row["stored"] = 1 << 20; }, Errc::corrupt, "leave the file"},
      {"stored wraps", [](OnePacked& f) { f.row["stored"] = UINT64_MAX; }, Errc::corrupt, "leave the file"},
      {"wrong stored hash", [](OnePacked& f) { f.row["stored_xxh3_128"] = std::string(32, '0'); }, Errc::corrupt,
       "hash of the packed bytes"},
      {"wrong raw hash", [](OnePacked& f) { f.row["xxh3_128"] = std::string(32, '0'); }, Errc::corrupt, "hash"},
      {"another size", [](OnePacked& f) { f.row["size"] = 999, f.row["shape"] = {999}; }, Errc::corrupt,
       "of 1000 bytes, the header says 999"},
      {"size against shape", [](OnePacked& f) { f.row["shape"] = {999}; }, Errc::shape_mismatch, "takes 999 bytes"},
      {"no frame", [](OnePacked& f) { f.store(std::vector<std::byte>(64)); }, Errc::corrupt, "no whole zstd frame"},
      {"nothing stored", [](OnePacked& f) { f.store({}); }, Errc::corrupt, "no whole zstd frame"},
      {"half a frame",
       [](OnePacked& f) {
         std::vector<std::byte> noise(1000);
         for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::byte>(i * i * 31 >> 3);
         auto frame = zstd(noise);
         frame.resize(frame.size() / 2);
         f.store(frame);
       },
       Errc::corrupt, "no whole zstd frame"},
      {"two frames",
       [](OnePacked& f) {
         auto twice = f.stored;
         twice.insert(twice.end(), f.stored.begin(), f.stored.end());
         f.store(twice);
       },
       Errc::corrupt, "a zstd frame of"},
      {"no size stated", [](OnePacked& f) { f.store(zstd(f.raw, false)); }, Errc::corrupt, "does not state its size"},
      {"damaged inside",
       [](OnePacked& f) {
         auto frame = f.stored;
         frame[frame.size() - 1] ^= std::byte{1};
         f.store(frame);
       },
       Errc::corrupt, "blob 'a'"},
  };
  for (const Case& entry : table) {
    OnePacked made;
    entry.spoil(made);
    const auto file = decode_entity(made.encode(), "x.entity");
    ASSERT_FALSE(file) << entry.what;
    EXPECT_EQ(name(file.error().code()), name(entry.code)) << entry.what << ": " << file.error().text();
    EXPECT_NE(file.error().text().find(entry.text), std::string::npos) << entry.what << ": " << file.error().text();
  }
}

TEST(PackedEntity, RefusesABombBeforeItAllocates) {
  OnePacked made;
  // 2^40 bytes, in a header and in a frame's own: nothing would hold them.
  made.row["size"] = std::uint64_t{1} << 40;
  made.row["shape"] = {std::uint64_t{1} << 40};
  const auto huge = decode_entity(made.encode());
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code(), Errc::too_large);
  EXPECT_NE(huge.error().text().find("would unpack to 1099511627776"), std::string::npos) << huge.error().text();

  // At the limit, and one past it.
  made = OnePacked();
  const std::size_t stored = made.stored.size();
  made.raw.assign(256 * stored + 100, std::byte{7});
  made.stored = zstd(made.raw);
  ASSERT_EQ(made.stored.size(), stored) << "runs of any length take the same bytes";
  made.row["size"] = made.raw.size(), made.row["shape"] = {made.raw.size()}, made.row["xxh3_128"] = hex(made.raw);
  made.store(made.stored);
  EXPECT_TRUE(decode_entity(made.encode(), "x", {.free_unpacked = 100}));
  EXPECT_EQ(decode_entity(made.encode(), "x", {.free_unpacked = 99}).error().code(), Errc::too_large);
}

TEST(PackedEntity, WritesNothingThatItWouldRefuse) {
  // Ten blobs of zeros that pack to nothing, 1.25 GiB in all: what would pass the limit stays plain.
  const std::vector<std::byte> zeros(std::size_t{1} << 27);
  std::vector<Tensor> blobs;
  for (int i = 0; i < 10; ++i) blobs.push_back(make_tensor<std::byte>("b" + std::to_string(i), zeros));
  const auto bytes = encode_entity(Json(), Json(), blobs, kPacked);
  ASSERT_TRUE(bytes) << bytes.error().text();
  EXPECT_GT(bytes->size(), 2 * zeros.size());
  EXPECT_LT(bytes->size(), 3 * zeros.size());
  const auto file = decode_entity(ByteSpan(*bytes));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_TRUE(same(file->tensors().back().bytes, zeros));
}

TEST(EntityCompatibility, PassesOverWhatItMayNotUnderstand) {
  const std::string header = R"({"network":1,"meta":null,"x-made-by":{"tool":"y"},"x-":[1],"blobs":[)" +
                             std::string(R"({"x-note":7,)") + row("a", "x-mine", "[3]", "0", "128", 128).substr(1) +
                             "]}";
  // A higher minor version and every flag that may be passed over.
  const auto file = decode_entity(sealed(header, std::vector<std::byte>(128), 0xFF00, 513));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->extra(), (Json{{"x-made-by", {{"tool", "y"}}}, {"x-", {1}}}));
  EXPECT_EQ(file->tensors()[0].type, "x-mine");
  EXPECT_EQ(file->tensors()[0].bytes.size(), 128u) << "of a type of its own the shape says nothing";

  const auto saved = encode_entity(file->network(), file->meta(), file->tensors(), {.extra = &file->extra()});
  ASSERT_TRUE(saved) << saved.error().text();
  const auto again = decode_entity(ByteSpan(*saved));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->extra(), file->extra()) << "kept by who copies a file";
  EXPECT_EQ(std::to_integer<int>((*saved)[11]), 0) << "flags that we do not know are not ours to keep";
}

TEST(EntityCompatibility, RefusesWhatItMustUnderstand) {
  const auto code = [](const std::string& header, std::uint16_t flags = 0) {
    const auto file = decode_entity(sealed(header, std::vector<std::byte>(128), flags));
    return file ? Errc::internal : file.error().code();
  };
  const std::string sound = with(row("a", "bytes", "[128]", "0", "128", 128));
  EXPECT_EQ(code(sound), Errc::internal) << "the frame must be sound";
  for (int bit = 1; bit < 8; ++bit)
    EXPECT_EQ(code(sound, static_cast<std::uint16_t>(1 << bit)), Errc::unsupported) << bit;
  EXPECT_EQ(code(R"({"network":1,"meta":null,"y-key":1,"blobs":[]})"), Errc::unknown_name);
  EXPECT_EQ(code(with(row("a", "xmine", "[128]", "0", "128", 128))), Errc::unknown_name);
  EXPECT_EQ(code(with(row("a", "x-m e", "[128]", "0", "128", 128))), Errc::parse_failed);
  const Json wrong{{"y", 1}}, list = Json::array();
  EXPECT_EQ(encode_entity(Json(), Json(), {}, {.extra = &wrong}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(encode_entity(Json(), Json(), {}, {.extra = &list}).error().code(), Errc::invalid_argument);
  const Json not_finite{{"x-y", std::nan("")}};
  EXPECT_EQ(encode_entity(Json(), Json(), {}, {.extra = &not_finite}).error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace weft::formats::entity_packed_test
