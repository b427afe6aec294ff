// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/entity.hpp"
#include "formats/entity/internal/entity_layout.hpp"
#include "formats/entity/internal/zstd.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace weft::formats {
namespace {

using namespace entity;

constexpr std::size_t kFramesKept = std::size_t{16} << 20;  // bytes; larger frames are made anew when they are written

template <class T>
void store(ByteBuffer& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);  // little-endian, as core/state_hash.cpp asserts
}

/// Size and digest of what passes by.
class Measure {
 public:
  void add(ByteSpan part) {
    if (part.empty()) return;
    hasher_.add_bytes(part.data(), part.size());
    size_ += part.size();
    last_ = part.back();
  }
  std::uint64_t size() const { return size_; }
  const std::byte* last() const { return &last_; }
  Hash128 digest() const { return hasher_.digest(); }

 private:
  StateHasher hasher_;
  std::uint64_t size_ = 0;
  std::byte last_{};
};

/// A tensor's bytes, of `size` where they are produced.
ByteSource content_of(const Tensor& tensor, std::uint64_t size) {
  return tensor.produce ? ByteSource(size, tensor.produce) : ByteSource(tensor.bytes);
}

/// Stored form of a tensor: its bytes, or a zstd frame of them.
struct Stored {
  ByteSource content;
  std::uint64_t size = 0, stored_size = 0;
  Hash128 digest, stored_digest;
  bool is_packed = false;
  std::shared_ptr<const ByteBuffer> frame;  // of a packed one that is small
};

/// Content of a file: what begins it, then the blobs.
struct Plan {
  std::vector<Tensor> tensors;
  std::vector<Stored> stored;
  ByteBuffer head;  // fixed part, header, padding
};

/// Packs where that pays.
Status pack(Stored& blob, UnpackedAllowance& allowance, std::size_t& budget) {
  Measure packed;
  std::vector<std::byte> frame;
  WEFT_CHECK(pack_zstd(blob.content, [&](ByteSpan part) -> Status {
    packed.add(part);
    if (packed.size() <= budget)
      frame.insert(frame.end(), part.begin(), part.end());
    else
      frame = {};
    return {};
  }));
  if (aligned(packed.size()) >= aligned(blob.size)) return {};
  UnpackedAllowance with = allowance;
  if (!with.take(packed.size(), blob.size)) return {};
  allowance = with;
  blob.is_packed = true;
  blob.stored_size = packed.size();
  blob.stored_digest = packed.digest();
  if (packed.size() > budget) return {};
  ByteBuffer kept(frame.size());
  if (!frame.empty()) std::memcpy(kept.data(), frame.data(), frame.size());
  blob.frame = std::make_shared<const ByteBuffer>(std::move(kept));
  budget -= frame.size();
  return {};
}

Status measure(Plan& plan, Packing packing) {
  UnpackedAllowance allowance{EntityLimits{}};
  std::size_t budget = kFramesKept;
  for (const Tensor& tensor : plan.tensors) {
    WEFT_CHECK(check_blob(tensor));
    if (tensor.produce && is_private(tensor.type))
      return fail(Errc::invalid_argument,
                  "blob '" + tensor.name + "': of a type of its own, so its bytes must be given");
    std::uint64_t size = tensor.bytes.size();
    if (tensor.produce) {
      WEFT_TRY(size, tensor_size(tensor.type, tensor.shape));
    }
    Stored blob;
    blob.content = content_of(tensor, size);
    Measure plain;
    WEFT_CHECK(blob.content.produce([&](ByteSpan part) -> Status {
      plain.add(part);
      return {};
    }));
    WEFT_CHECK(check_size(tensor, plain.size(), plain.last()));
    blob.size = blob.stored_size = plain.size();
    blob.digest = blob.stored_digest = plain.digest();
    if (packing == Packing::zstd && blob.size != 0) WEFT_CHECK(pack(blob, allowance, budget));
    plan.stored.push_back(std::move(blob));
  }
  return {};
}

Result<std::string> encode_header(const Json& network, const Json& meta, const Plan& plan, const Json* extra) {
  for (const Json* value : {&network, &meta})
    if (Status status = check_json(*value); !status) return fail(std::move(status).error().within("entity header"));
  Json rows = Json::array();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    const Stored& blob = plan.stored[i];
    Json row{{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape},
             {"offset", offset},    {"size", blob.size},   {"xxh3_128", to_string(blob.digest)}};
    if (blob.is_packed)
      row.update(
          {{"packed", "zstd"}, {"stored", blob.stored_size}, {"stored_xxh3_128", to_string(blob.stored_digest)}});
    rows.push_back(std::move(row));
    offset += aligned(blob.stored_size);
    if (offset > entity::kMaxFileSize) return fail(Errc::too_large, "entity: more than 2^46 bytes of blobs");
  }
  Json header{{"network", network}, {"meta", meta}, {"blobs", std::move(rows)}};
  if (extra) {
    if (!extra->is_object()) return fail(Errc::invalid_argument, "entity header: private keys must be an object");
    if (Status status = check_json(*extra, kHeaderLimits); !status)
      return fail(std::move(status).error().within("entity header"));
    for (const auto& [key, value] : extra->members()) {
      if (!is_private(key))
        return fail(Errc::invalid_argument, "entity header: key " + in_quotes(key) + " does not begin with \"x-\"");
      header[key] = value;
    }
  }
  auto text = write_json(header, -1, kHeaderLimits);
  if (!text) return fail(std::move(text).error().within("entity header"));
  return text;
}

/// Fixed part and header.
ByteBuffer make_head(const std::string& header, bool has_packed) {
  ByteBuffer head(aligned(kFixedSize + header.size()));
  std::memcpy(head.data(), entity::kMagic.data(), entity::kMagic.size());
  store(head, kVersionAt, entity::kVersion);
  store(head, kFlagsAt, has_packed ? kPackedFlag : std::uint16_t{0});
  store(head, kHeaderLengthAt, std::uint64_t{header.size()});
  std::memcpy(head.data() + kChecksumAt, canonical(header_checksum(head, header)).data(), sizeof(Hash128));
  std::memcpy(head.data() + kFixedSize, header.data(), header.size());
  return head;
}

/// Writes one blob; it must be what was measured.
Status produce(const Tensor& tensor, const Stored& blob, const ByteSource::Sink& sink) {
  if (blob.frame) return sink(*blob.frame);
  Measure written;
  const ByteSource::Sink measured = [&](ByteSpan part) {
    written.add(part);
    return sink(part);
  };
  WEFT_CHECK(blob.is_packed ? pack_zstd(blob.content, measured) : blob.content.produce(measured));
  if (written.digest() == blob.stored_digest) return {};
  return fail(Errc::internal, "blob '" + tensor.name + "': changed while it was written");
}

Status produce(const Plan& plan, const ByteSource::Sink& sink) {
  static constexpr std::array<std::byte, kAlignment> kZeros{};
  WEFT_CHECK(sink(plan.head));
  for (std::size_t i = 0; i < plan.stored.size(); ++i) {
    const Stored& blob = plan.stored[i];
    WEFT_CHECK(produce(plan.tensors[i], blob, sink));
    if (const std::size_t padding = aligned(blob.stored_size) - blob.stored_size)
      WEFT_CHECK(sink(ByteSpan(kZeros).first(padding)));
  }
  return {};
}

}  // namespace

Result<ByteSource> entity_source(const Json& network, const Json& meta, std::vector<Tensor> tensors,
                                 const EntityOptions& options) {
  if (tensors.size() > kMaxBlobs)
    return fail(Errc::too_large,
                "entity: " + std::to_string(tensors.size()) + " blobs, at most " + std::to_string(kMaxBlobs));
  WEFT_CHECK(check_unique(tensors));
  auto plan = std::make_shared<Plan>();
  plan->tensors = std::move(tensors);
  WEFT_CHECK(measure(*plan, options.packing));
  WEFT_TRY(const std::string header, encode_header(network, meta, *plan, options.extra));
  const auto is_packed = [](const Stored& blob) { return blob.is_packed; };
  plan->head = make_head(header, std::any_of(plan->stored.begin(), plan->stored.end(), is_packed));
  std::uint64_t size = plan->head.size();
  for (const Stored& blob : plan->stored) size += aligned(blob.stored_size);
  return ByteSource(size, [plan](const ByteSource::Sink& sink) { return produce(*plan, sink); });
}

Result<ByteBuffer> encode_entity(const Json& network, const Json& meta, const std::vector<Tensor>& tensors,
                                 const EntityOptions& options) {
  WEFT_TRY(const ByteSource source, entity_source(network, meta, tensors, options));
  return collect(source);
}

}  // namespace weft::formats
