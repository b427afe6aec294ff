// SPDX-License-Identifier: Apache-2.0
// Weights as files store them. The input names a type and a shape for one layer, then blobs with any type, shape and
// bytes; the file around them is made by the code that writes files, so that every checksum is right.

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"

#include "core/assert.hpp"
#include "core/dtype.hpp"
#include "core/encoding.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace weft;
using formats::Tensor;

constexpr std::size_t kMostOut = 20, kMostIn = 70, kMostBlobs = 8, kMostBytes = 16384;
const std::string kLayer = "weights/0,0,0,0/";
constexpr const char* kNames[] = {"weight", "weight.scales", "weight.zero_points", "weight.master", "bias"};

/// Layout of an input:
///   type, granularity and flags (1: a live file, 2: the layer trains through its codes), outputs - 1, inputs - 1
///   then blobs: name, type (behind the dtypes: u32, u64, bytes), extents and each of them, bytes as many as those take
/// Every item is one byte; bytes that are missing are 0.
class Input {
 public:
  explicit Input(ByteSpan bytes) : left_(bytes) {}
  bool is_done() const { return left_.empty(); }
  std::size_t next(std::size_t below) {
    if (left_.empty()) return 0;
    const auto byte = static_cast<std::size_t>(left_[0]);
    left_ = left_.subspan(1);
    return byte % below;
  }
  std::vector<std::byte> take(std::size_t count) {
    const std::size_t there = std::min(count, left_.size());
    std::vector<std::byte> bytes(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(there));
    left_ = left_.subspan(there);
    bytes.resize(count);
    return bytes;
  }

 private:
  ByteSpan left_;
};

std::string type_name(std::size_t i) {
  constexpr const char* kCounts[] = {"u32", "u64", "bytes"};
  const std::size_t dtypes = kDtypeCount;
  return i < dtypes ? std::string(name(static_cast<Dtype>(i))) : kCounts[i - dtypes];
}

void check_error(const Error& error) {
  WEFT_ASSERT(!error.text().empty() && error.text().size() < 4096, "an error text that grows with the input");
  WEFT_ASSERT(write_json(error.text()).has_value(), "an error text that is not UTF-8");
}

mesh::Mesh mesh_of(const mesh::NetworkSpec& spec) {
  auto made = mesh::Mesh::build(spec, {.threads = 1});
  WEFT_ASSERT(made.has_value(), "no mesh: " + made.error().text());
  return *std::move(made);
}

formats::EntityFile decode(const ByteBuffer& bytes) {
  auto file = formats::decode_entity(ByteSpan(bytes), "fuzz");
  WEFT_ASSERT(file.has_value(), "what was written cannot be read: " + file.error().text());
  return *std::move(file);
}

ByteBuffer save(mesh::Mesh& mesh, bool live) {
  auto saved = mesh::encode_mesh(mesh, live);
  WEFT_ASSERT(saved.has_value(), "what was restored cannot be saved: " + saved.error().text());
  return *std::move(saved);
}

/// Expects that a mesh of the file's own type computes with the weights in the file.
void check_same_weights(const formats::EntityFile& file, const formats::EntityFile& saved) {
  const bool has_master = file.contains(kLayer + "weight.master");
  // Codes of another type or with scales of other groups are decoded, and encoded anew.
  bool is_converted = false;
  for (const char* part : {"weight", "weight.scales"}) {
    const auto before = file.find(kLayer + part), after = saved.find(kLayer + part);
    is_converted |= before && after && (before->type != after->type || before->shape != after->shape);
  }
  for (const Tensor& blob : saved.tensors()) {
    const auto before = file.find(blob.name);
    if (!blob.name.starts_with(kLayer) || !before || before->type != blob.type || before->shape != blob.shape) continue;
    if (is_converted && blob.name.starts_with(kLayer + "weight") && blob.name != kLayer + "weight.master") continue;
    // float32 has no codes beside its master.
    if (blob.name == kLayer + "weight" && blob.type == "float32" && has_master) continue;
    WEFT_ASSERT(std::equal(blob.bytes.begin(), blob.bytes.end(), before->bytes.begin(), before->bytes.end()),
                blob.name + " changed by loading");
  }
}

}  // namespace

// A weight that restores is saved and restored again as the same bytes; an error says why one does not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input({reinterpret_cast<const std::byte*>(data), size});
  const auto dtype = static_cast<Dtype>(input.next(kDtypeCount));
  const auto granularity = static_cast<Granularity>(input.next(std::size(kGranularities)));
  if (!check_granularity(dtype, granularity)) return 0;
  const std::size_t flags = input.next(4);
  const std::size_t out = 1 + input.next(kMostOut), in = 1 + input.next(kMostIn);
  const bool live = flags & 1;
  const mesh::NetworkSpec spec = mesh::NetworkBuilder("stored", {1, 1, 1, 1})
                                     .input("in", in)
                                     .dense({0, 0, 0, 0}, out)
                                     .dtype(dtype, has_scale(dtype) ? std::optional(granularity) : std::nullopt)
                                     .quantization_aware((flags & 2) != 0 && dtype != Dtype::float32)
                                     .spec();
  std::deque<std::vector<std::byte>> bytes;
  std::vector<Tensor> blobs;
  while (!input.is_done() && blobs.size() < kMostBlobs) {
    const std::string blob_name = kLayer + kNames[input.next(std::size(kNames))];
    const std::string type = type_name(input.next(kDtypeCount + 3));
    Shape shape(input.next(4));
    for (std::size_t& extent : shape) extent = input.next(128);
    const auto length = formats::tensor_size(type, shape);
    if (!length || *length > kMostBytes) return 0;
    blobs.push_back({blob_name, type, shape, bytes.emplace_back(input.take(*length))});
  }
  const auto text = mesh::write_network(spec);
  WEFT_ASSERT(text.has_value(), "a network that cannot be written: " + text.error().text());
  const auto written = formats::encode_entity(*parse_json(*text, "network"), Json::object(), blobs);
  if (!written) {
    check_error(written.error());  // two blobs of one name
    return 0;
  }
  const formats::EntityFile file = decode(*written);
  const auto read = mesh::network_of(file);
  WEFT_ASSERT(read.has_value(), "a network that cannot be read: " + read.error().text());
  mesh::Mesh first = mesh_of(*read);
  if (const Status restored = mesh::restore_weights(first, file); !restored) {
    check_error(restored.error());
    return 0;
  }
  const ByteBuffer once = save(first, live);
  const formats::EntityFile saved = decode(once);
  check_same_weights(file, saved);
  mesh::Mesh second = mesh_of(*mesh::network_of(saved));
  const Status again = mesh::restore_weights(second, saved);
  WEFT_ASSERT(again.has_value(), "what was saved cannot be restored: " + again.error().text());
  if (live) {
    const Status awake = mesh::restore_live(second, saved);
    WEFT_ASSERT(awake.has_value(), "what was saved cannot go on: " + awake.error().text());
  }
  const ByteBuffer twice = save(second, live);
  WEFT_ASSERT(std::equal(once.begin(), once.end(), twice.begin(), twice.end()), "two savings differ");
  const std::vector<float> ones(in, 1.0f);
  WEFT_ASSERT(second.set_input("in", ones).has_value(), "an input that is refused");
  if (const Status ticked = second.tick(); !ticked) check_error(ticked.error());  // a sum may overflow
  return 0;
}
