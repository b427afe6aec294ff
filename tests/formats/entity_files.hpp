// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/entity/entity.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace weft::formats::entity_files {

inline const std::vector<float> kWeights{1.0f, -2.5f, 0.1f, -0.0f, 1e-40f, 3.4e38f};
inline const std::vector<std::uint64_t> kTick{(std::uint64_t{1} << 63) + 5};
inline const std::vector<std::uint32_t> kLabels{7, 4294967295u};

template <class... Bytes>
std::vector<std::byte> bytes_of(Bytes... values) {
  return {static_cast<std::byte>(values)...};
}

/// The blobs of golden.entity, as tests/data/formats/make_golden.py has them.
struct Golden {
  std::vector<std::byte> codes = bytes_of(0x21, 0x43, 0x05), signs = bytes_of(0b10110101, 1), notes;
  Json network{{"weft", 2}, {"layers", Json::array()}}, meta{{"made", "gr\u00fcn"}, {"rate", 0.03}};
  std::vector<Tensor> blobs;
  Golden() {
    for (int i = 0; i < 70; ++i) notes.push_back(static_cast<std::byte>(i));
    blobs = {make_tensor<float>("layers/0,0,0,0/weights", {2, 3}, kWeights),
             {"layers/0,0,0,0/codes", "int4", {5}, codes},
             {"signs", "binary", {3, 3}, signs},
             make_tensor<std::uint64_t>("state/tick", {}, kTick),
             {"state/empty", "float32", {0, 4}, {}},
             make_tensor<std::uint32_t>("state/label", kLabels),
             make_tensor<std::byte>("notes", notes)};
  }
  ByteBuffer encode() const { return encode_entity(network, meta, blobs).value(); }
};

inline bool same(ByteSpan a, ByteSpan b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

inline ByteBuffer changed(ByteSpan bytes, std::size_t at, std::uint8_t value) {
  ByteBuffer copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  copy[at] = static_cast<std::byte>(value);
  return copy;
}

/// A file whose header is `header` and whose checksum is right, whatever the header says.
inline ByteBuffer sealed(const std::string& header, const std::vector<std::byte>& data, std::uint16_t flags = 0,
                         std::uint16_t minor = 0) {
  const std::size_t data_at = (64 + header.size() + 63) / 64 * 64;
  ByteBuffer bytes(data_at + (data.size() + 63) / 64 * 64);
  std::memcpy(bytes.data(), "ENTITY\0\0\2", 9);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data() + 10, &flags, 2);
  std::memcpy(bytes.data() + 12, &minor, 2);
  std::memcpy(bytes.data() + 16, &length, 8);
  if (!data.empty()) std::memcpy(bytes.data() + data_at, data.data(), data.size());
  std::memcpy(bytes.data() + 64, header.data(), header.size());
  StateHasher hasher;
  hasher.add_bytes(bytes.data(), 24);
  hasher.add_bytes(header.data(), header.size());
  const std::string hex = to_string(hasher.digest());
  for (std::size_t i = 0; i < 16; ++i)
    bytes[24 + i] = static_cast<std::byte>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return bytes;
}
inline ByteBuffer sealed(const std::string& header, std::size_t data_size) {
  return sealed(header, std::vector<std::byte>(data_size));
}

/// One blob row; "00.." is replaced by the digest of `size` zero bytes, so that what is wrong is only what is meant.
inline std::string row(const std::string& name, const std::string& type, const std::string& shape,
                       const std::string& offset, const std::string& size, std::size_t digest_size = 0) {
  const std::vector<char> zeros(digest_size);
  return R"({"name":")" + name + R"(","type":")" + type + R"(","shape":)" + shape + R"(,"offset":)" + offset +
         R"(,"size":)" + size + R"(,"xxh3_128":")" + to_string(hash_bytes(zeros.data(), zeros.size())) + R"("})";
}
inline std::string with(const std::string& rows) { return R"({"network":1,"meta":null,"blobs":[)" + rows + "]}"; }

}  // namespace weft::formats::entity_files
