// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

/// Limits shared by the reader and the writer of `.onnx` files (docs/formats/onnx.md).
namespace weft::formats::onnx {

inline constexpr std::size_t kMaxFileSize = (std::size_t{1} << 31) - 1;  // of a message of Protocol Buffers
inline constexpr std::size_t kMaxExternalSize = std::size_t{1} << 46;
// Of what is written: tensors that go to another file, and where they begin there, so that pages can be mapped.
inline constexpr std::size_t kLeastExternal = 1024, kExternalAlignment = 4096;
inline constexpr std::size_t kMaxNodes = 1'000'000, kMaxTensors = std::size_t{1} << 20;
inline constexpr std::size_t kMaxItems = std::size_t{1} << 23;  // names, attributes, axes and ports together
inline constexpr std::size_t kMaxNameSize = std::size_t{64} << 10, kMaxGraphDepth = 8, kMaxRank = 16;

}  // namespace weft::formats::onnx
