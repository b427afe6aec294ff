// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"
#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// Adapters of low rank for the matrices of a model, as Hugging Face's PEFT keeps them: a folder of adapter_config.json
/// and adapter_model.safetensors. W becomes W + scale B A, with A [rank, in], B [out, rank] and scale lora_alpha /
/// rank, or lora_alpha / sqrt(rank) with use_rslora.
/// @source Hu et al. 2021, arXiv:2106.09685; rslora: Kalajdzievski 2023, arXiv:2312.03732
/// @thread any: immutable
class LoraAdapters {
 public:
  struct Pair {
    std::string a, b;  // tensors
    std::size_t rank = 0, out = 0, in = 0;
    float scale = 1;
  };

  /// @error not_found: no such files; unsupported: all keys and tensors that mean something else than such adapters, at
  ///        once: other kinds of adapters, trained biases, ranks that differ by module; as the formats' readers
  static Result<LoraAdapters> open(storage::FileSystem& files, const std::string& folder);

  /// By the name of the matrix' tensor in a folder of Hugging Face ("model.layers.0.self_attn.q_proj.weight").
  const std::map<std::string, Pair, std::less<>>& pairs() const noexcept { return pairs_; }
  /// Adds scale B A to row `row` of a matrix: values[k] = fma(scale B[row][r], A[r][k], values[k]), r ascending.
  Status add_to_row(const Pair& pair, std::size_t row, std::span<float> values) const;

 private:
  /// Of one tensor as float32, read once.
  const std::vector<float>& values_of(const std::string& tensor) const { return values_.at(tensor); }

  std::map<std::string, Pair, std::less<>> pairs_;
  std::map<std::string, std::vector<float>> values_;
};

}  // namespace weft::models
