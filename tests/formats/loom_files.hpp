// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/loom/loom_entity.hpp"

#include "core/json.hpp"

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Files of Loom, made from docs/formats/loom_entity.md.
namespace weft::formats::loom_files {

using Bytes = std::vector<std::byte>;

inline ByteBuffer v1_file(const std::string& header, const Bytes& payload = {}, std::uint16_t version = 1,
                          std::uint16_t flags = 0) {
  ByteBuffer bytes(20 + header.size() + payload.size());
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), "ENTITY\0\0", 8);
  std::memcpy(bytes.data() + 8, &version, 2);
  std::memcpy(bytes.data() + 10, &flags, 2);
  std::memcpy(bytes.data() + 12, &length, 8);
  std::memcpy(bytes.data() + 20, header.data(), header.size());
  if (!payload.empty()) std::memcpy(bytes.data() + 20 + header.size(), payload.data(), payload.size());
  return bytes;
}

template <class T>
Bytes raw(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// A network on a grid of one cell, with its layers one above the other.
struct V1Model {
  Json layers = Json::array(), blobs = Json::array();
  Bytes payload;

  V1Model& layer(std::string type, Json keys = Json::object()) {
    Json row{{"z", 0},
             {"y", 0},
             {"x", 0},
             {"l", layers.size()},
             {"type", std::move(type)},
             {"activation", "Linear"},
             {"dtype", "float32"},
             {"softmax_type", "Standard"}};
    row.update(keys);
    layers.push_back(std::move(row));
    return *this;
  }
  /// Of the layer added last.
  V1Model& weights(const Bytes& bytes, const std::string& dtype, float scale = 1.0f, bool native = true) {
    blobs.push_back({{"path", "layers." + std::to_string(layers.size() - 1)},
                     {"offset", payload.size()},
                     {"length", bytes.size()},
                     {"dtype", dtype},
                     {"scale", scale},
                     {"native", native}});
    payload.insert(payload.end(), bytes.begin(), bytes.end());
    return *this;
  }
  V1Model& weights(const std::vector<float>& values) { return weights(raw(values), "float32"); }

  Json header() const {
    return {{"format_version", 1},
            {"network",
             {{"id", "network"},
              {"depth", 1},
              {"rows", 1},
              {"cols", 1},
              {"layers_per_cell", layers.size()},
              {"layers", layers}}},
            {"blobs", blobs}};
  }
  ByteBuffer encode() const { return v1_file(header().dump(), payload); }
};

inline Result<LoomEntityFile> decode_v1(ByteBuffer bytes, std::string_view source = "v1") {
  return decode_loom_entity(storage::MappedFile(std::move(bytes)), source);
}

}  // namespace weft::formats::loom_files
