// SPDX-License-Identifier: Apache-2.0
// Files whose stored weights are wrong: each is refused by name and place, in every way that a file can be wrong with
// all its checksums right.

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "testing.hpp"
#include <algorithm>
#include <cfloat>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>

namespace weft::mesh::quantized_weight_file_test {
namespace {

using formats::EntityFile;
using namespace testing_support;

constexpr std::size_t kOut = 3, kIn = 37;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
const std::string kCodes = "weights/0,0,0,0/weight", kScales = kCodes + ".scales", kZeros = kCodes + ".zero_points",
                  kMaster = kCodes + ".master";

NetworkSpec network(const Encoding& encoding) {
  return NetworkBuilder("stored", {1, 1, 1, 1})
      .input("in", kIn)
      .dense({0, 0, 0, 0}, kOut)
      .dtype(encoding.dtype, has_scale(encoding.dtype) ? std::optional(encoding.granularity) : std::nullopt)
      .spec();
}

Mesh mesh_of(const Encoding& encoding) { return must(Mesh::build(network(encoding))); }

/// A blob that may be changed, or taken out of the file.
struct Draft {
  std::string type;
  Shape shape;
  std::vector<std::byte> bytes;
  bool is_out = false;
};
using Change = std::function<void(Draft&)>;

template <class T>
Change put(std::size_t index, T value) {
  return [=](Draft& draft) {
    ASSERT_LE((index + 1) * sizeof value, draft.bytes.size());
    std::memcpy(draft.bytes.data() + index * sizeof value, &value, sizeof value);
  };
}
Change shaped(Shape shape) {
  return [=](Draft& draft) {
    draft.shape = shape;
    draft.bytes.resize(must(formats::tensor_size(draft.type, shape)));
  };
}
Change typed(std::string type) {
  return [=](Draft& draft) {
    draft.type = type;
    draft.bytes.resize(must(formats::tensor_size(type, draft.shape)));
  };
}
void take_out(Draft& draft) { draft.is_out = true; }

EntityFile file_of(const Encoding& encoding, bool live, std::string_view blob_name, const Change& change) {
  Mesh mesh = mesh_of(encoding);
  const auto bytes = must(encode_mesh(mesh, live));
  const EntityFile file = must(formats::decode_entity(ByteSpan(bytes), "whole"));
  std::vector<formats::Tensor> blobs;
  Draft draft;
  bool is_found = false;
  for (const formats::Tensor& blob : file.tensors()) {
    blobs.push_back(blob);
    if (blob.name != blob_name) continue;
    is_found = true;
    draft = {blob.type, blob.shape, {blob.bytes.begin(), blob.bytes.end()}};
    change(draft);
    blobs.back() = {blob.name, draft.type, draft.shape, draft.bytes};
    if (draft.is_out) blobs.pop_back();
  }
  EXPECT_TRUE(is_found) << blob_name << " of " << to_string(encoding);
  const auto changed = must(formats::encode_entity(file.network(), file.meta(), blobs));
  return must(formats::decode_entity(ByteSpan(changed), "changed"));
}

struct Row {
  std::string what;
  Encoding encoding;
  std::string blob;
  Change change;
  Errc code;
  std::vector<std::string> fragments;
  bool live = false;
};

std::vector<Row> rows() {
  const Encoding int8(Dtype::int8), int4(Dtype::int4, Granularity::block32), uint4(Dtype::uint4, Granularity::channel),
      ternary(Dtype::ternary), binary(Dtype::binary), int32(Dtype::int32), e4m3(Dtype::fp8_e4m3), e5m2(Dtype::fp8_e5m2),
      halves(Dtype::int4, Granularity::block32_f16), half(Dtype::float16), bfloat(Dtype::bfloat16),
      wide(Dtype::float64);
  std::vector<Row> all = {
      {"codes that are counts", int8, kCodes, typed("u32"), Errc::shape_mismatch, {"u32", "no type of weights"}},
      {"codes of bytes", int8, kCodes, typed("bytes"), Errc::shape_mismatch, {"bytes", "no type of weights"}},
      {"no codes", int8, kCodes, take_out, Errc::not_found, {}},
      {"no scales", int8, kScales, take_out, Errc::not_found, {}},
      {"no zero points", uint4, kZeros, take_out, Errc::not_found, {}},
      {"scales as codes", int8, kScales, typed("float16"), Errc::shape_mismatch, {"float16", "float32"}},
      {"narrow scales", int32, kScales, typed("float32"), Errc::shape_mismatch, {"float32", "float64"}},
      {"32 bits as scales of 16", halves, kScales, typed("bfloat16"), Errc::shape_mismatch, {"bfloat16", "float16"}},
      {"scales of 16 bits, of 64", int32, kScales, typed("float16"), Errc::shape_mismatch, {"float16", "float64"}},
      {"a row of scales of 16", halves, kScales, shaped({kOut}), Errc::shape_mismatch, {"float16 [3]", "float32 [3]"}},
      {"wide zero points", uint4, kZeros, typed("uint16"), Errc::shape_mismatch, {"uint16", "uint8"}},
      {"codes turned over", int8, kCodes, shaped({kIn, kOut}), Errc::shape_mismatch, {"[37, 3]", "[3, 37]"}},
      {"codes in one row", half, kCodes, shaped({kIn * kOut}), Errc::shape_mismatch, {"[111]", "[3, 37]"}},
      {"codes without extent", int4, kCodes, shaped({0, kIn}), Errc::shape_mismatch, {"[0, 37]", "[3, 37]"}},
      {"too many scales", int8, kScales, shaped({kOut + 1}), Errc::shape_mismatch, {"[4]", "[3]"}},
      {"too few blocks", int4, kScales, shaped({kOut, 1}), Errc::shape_mismatch, {"[3, 1]", "[3, 2]"}},
      {"no scale at all", ternary, kScales, shaped({0}), Errc::shape_mismatch, {"[0]"}},
      {"scales of no shape", int8, kScales, shaped({kOut, 1, 1}), Errc::shape_mismatch, {"[3, 1, 1]"}},
      {"zero points of others", uint4, kZeros, shaped({1}), Errc::shape_mismatch, {"[1]", "[3]"}},
      {"a zero point past 15", uint4, kZeros, put<std::uint8_t>(2, 16), Errc::corrupt, {"zero point 2", "16", "15"}},
      {"int8's -128", int8, kCodes, put<std::uint8_t>(5, 0x80), Errc::corrupt, {"code 5", "-128"}},
      {"int4's -8", int4, kCodes, put<std::uint8_t>(7, 0x81), Errc::corrupt, {"code 15", "-8"}},
      {"int32's lowest", int32, kCodes, put<std::uint32_t>(9, 1u << 31), Errc::corrupt, {"code 9", "-2147483648"}},
      {"ternary's -2", ternary, kCodes, put<std::uint8_t>(1, 0x08), Errc::corrupt, {"code 5", "-2"}},
      {"e4m3's NaN", e4m3, kCodes, put<std::uint8_t>(40, 0xff), Errc::corrupt, {"weight 40"}},
      {"e5m2's infinity", e5m2, kCodes, put<std::uint8_t>(110, 0x7c), Errc::corrupt, {"weight 110"}},
      {"float16's infinity", half, kCodes, put<std::uint16_t>(0, 0xfc00), Errc::corrupt, {"weight 0"}},
      {"bfloat16's NaN", bfloat, kCodes, put<std::uint16_t>(38, 0x7fc0), Errc::corrupt, {"weight 38"}},
      {"float64 past float32", wide, kCodes, put(3, 1e300), Errc::corrupt, {"weight 3"}},
      {"a scale that overflows", int8, kScales, put(1, FLT_MAX), Errc::corrupt, {"weight 37"}},
      {"a master with a NaN", int8, kMaster, put(4, kNan), Errc::corrupt, {"value 4", "nan"}, true},
      {"a master of codes", int8, kMaster, typed("int32"), Errc::shape_mismatch, {"int32"}, true},
      {"a master too small", int8, kMaster, shaped({kOut, kIn - 1}), Errc::shape_mismatch, {"[3, 36]"}, true},
  };
  const std::pair<float, std::string> scales[] = {{0.0f, "0"},   {-0.0f, "-0"},   {-0.5f, "-0.5"}, {kNan, "nan"},
                                                  {kInf, "inf"}, {-kInf, "-inf"}, {1e-40f, "e-"}};
  for (const auto& [scale, text] : scales)
    for (const Encoding& encoding : {int8, int4, uint4, e4m3})
      all.push_back({"a scale of " + text,
                     encoding,
                     kScales,
                     put(2, scale),
                     Errc::corrupt,
                     {"scale 2", text, "positive normal number"}});
  for (const std::uint16_t scale : {0, 0x8000, 0x8001, 0xbc00, 0x7c00, 0x7e01, 0xfc00})
    all.push_back({"a binary16 scale of " + std::to_string(scale),
                   halves,
                   kScales,
                   put(2, scale),
                   Errc::corrupt,
                   {"scale 2", "int4/block32_f16", "positive binary16 number"}});
  for (const double scale : {0.0, -1.0, double{kNan}, double{kInf}, 5e-324})
    all.push_back({"a wide scale of " + std::to_string(scale),
                   int32,
                   kScales,
                   put(1, scale),
                   Errc::corrupt,
                   {"scale 1", "positive normal number"}});
  return all;
}

TEST(StoredWeightFile, IsRefusedByNameAndPlace) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.what + ", " + to_string(row.encoding));
    const EntityFile file = file_of(row.encoding, row.live, row.blob, row.change);
    // Into a mesh that holds the same type, and into one that would have to convert.
    for (const Encoding& held : {row.encoding, Encoding(Dtype::float32), Encoding(Dtype::int8, Granularity::tensor)}) {
      SCOPED_TRACE("into " + to_string(held));
      Mesh mesh = mesh_of(held);
      const Status restored = restore_weights(mesh, file);
      expect_error(restored, row.code, {"layers[0] [0,0,0,0]"});
      if (restored) continue;
      // A mesh of another type takes the shapes from the file, so its text may name another of two that do not fit.
      for (const std::string& fragment : row.fragments) {
        if (held != row.encoding) break;
        EXPECT_NE(restored.error().text().find(fragment), std::string::npos)
            << "'" << fragment << "' is missing in: " << restored.error().text();
      }
      EXPECT_NE(restored.error().text().find(row.code == Errc::corrupt || row.live ? "weight" : row.blob),
                std::string::npos)
          << restored.error().text();
      (void)mesh.tick();  // to be thrown away, but not to be feared
    }
  }
}

struct Arrays {
  std::vector<std::byte> codes, scales, zero_points;
  explicit Arrays(const QuantizedWeight& weight) {
    const auto ordered = weight.ordered();
    codes.assign(ordered.codes.begin(), ordered.codes.end());
    scales.assign(ordered.scales.begin(), ordered.scales.end());
    zero_points.assign(ordered.zero_points.begin(), ordered.zero_points.end());
  }
  bool operator==(const Arrays&) const = default;
};

TEST(StoredWeightFile, ChangesNothingWhereArraysAreRefused) {
  Mesh mesh = mesh_of(Encoding(Dtype::float32));
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Granularity granularity : kGranularities) {
      if (!check_granularity(static_cast<Dtype>(i), granularity)) continue;
      const Encoding encoding(static_cast<Dtype>(i), granularity);
      SCOPED_TRACE(to_string(encoding));
      const QuantizedWeight source = quantized(MeshAccess::weights(mesh), 0, encoding);
      QuantizedWeight weight = must(MeshAccess::weights(mesh).make_stored(0, encoding));
      const Arrays good(source);
      must(weight.restore(good.codes, good.scales, good.zero_points));
      ASSERT_TRUE(Arrays(weight) == good);
      // One byte short and one byte long, of each array; and every array with its last byte all ones.
      for (auto array : {&Arrays::codes, &Arrays::scales, &Arrays::zero_points}) {
        Arrays bad = good;
        (bad.*array).push_back(std::byte{0});
        expect_error(weight.restore(bad.codes, bad.scales, bad.zero_points), Errc::corrupt,
                     {to_string(encoding), "[3, 37]",
                      std::to_string((bad.*array).size()) + " bytes, not " + std::to_string((good.*array).size())});
        if ((good.*array).empty()) continue;
        (bad.*array).resize((good.*array).size() - 1);
        expect_error(weight.restore(bad.codes, bad.scales, bad.zero_points), Errc::corrupt,
                     {to_string(encoding), "[3, 37]", std::to_string((bad.*array).size()) + " bytes"});
        EXPECT_TRUE(Arrays(weight) == good);
      }
      if (good.scales.empty()) continue;
      Arrays bad = good;
      std::fill(bad.codes.begin(), bad.codes.end(), std::byte{0});
      bad.scales.back() = std::byte{0xff};
      expect_error(weight.restore(bad.codes, bad.scales, bad.zero_points), Errc::corrupt, {"scale "});
      EXPECT_TRUE(Arrays(weight) == good) << "a refused weight was written";
    }
}

TEST(StoredWeightFile, RefusesBitsAfterTheLastCode) {
  Mesh mesh = mesh_of(Encoding(Dtype::float32));
  for (int i = 0; i < kDtypeCount; ++i) {
    const Encoding encoding(static_cast<Dtype>(i));
    const std::size_t used = kOut * kIn * static_cast<std::size_t>(bits(encoding.dtype)) % 8;
    if (used == 0) continue;
    SCOPED_TRACE(to_string(encoding));
    QuantizedWeight weight = must(MeshAccess::weights(mesh).make_stored(0, encoding));
    const Arrays good(quantized(MeshAccess::weights(mesh), 0, encoding));
    must(weight.restore(good.codes, good.scales, good.zero_points));
    for (std::size_t bit = used; bit < 8; ++bit) {
      Arrays bad = good;
      bad.codes.back() |= static_cast<std::byte>(1u << bit);
      expect_error(weight.restore(bad.codes, bad.scales, bad.zero_points), Errc::corrupt,
                   {to_string(encoding), "[3, 37]", "bits after the last code"});
      EXPECT_TRUE(Arrays(weight) == good);
    }
  }
}

}  // namespace
}  // namespace weft::mesh::quantized_weight_file_test
