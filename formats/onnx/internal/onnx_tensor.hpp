// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"
#include "storage/mapped_file.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace weft::formats::onnx {

/// Place of a tensor's bytes in another file.
struct ExternalData {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length = std::nullopt;
};

/// A message TensorProto. Its bytes lie in the message, in `decoded`, or, still to be found, in another file.
struct TensorMessage {
  Tensor tensor;
  std::size_t size = 0;  // bytes that its type and shape take
  std::optional<storage::MappedFile> decoded = std::nullopt;
  std::optional<ExternalData> external = std::nullopt;
};

/// @error parse_failed, corrupt, unsupported, too_large: see decode_onnx
Result<TensorMessage> read_tensor(ByteSpan message);

}  // namespace weft::formats::onnx
