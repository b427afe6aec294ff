// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/value_sources.hpp"

namespace weft::gpu {
namespace {

/// True when the operation on `level` that made y of x is the last that wrote y, and x is as that one read it.
bool stands(Recorder& recorder, const ValueSources::View& x, const ValueSources::View& y, std::uint32_t level) {
  return recorder.written(range(y)) == level && recorder.written(range(x)) < level;
}

}  // namespace

void ValueSources::note_copy(Recorder& recorder, const View& x, const View& y) {
  copies_[next_++ % kCopies] = {x, y, recorder.last_level()};
}

void ValueSources::note_norm(Recorder& recorder, const View& x, const View& y, const float* gain, float epsilon) {
  norm_ = {x, y, gain, epsilon, recorder.last_level()};
}

ValueSources::View ValueSources::source_of(Recorder& recorder, const View& x) const {
  for (const Copy& each : copies_)
    if (each.level != 0 && is_same(each.y, x) && stands(recorder, each.x, each.y, each.level)) return each.x;
  return x;
}

const ValueSources::Norm* ValueSources::norm_of(Recorder& recorder, const View& x) const {
  const bool is_it = norm_.level != 0 && is_same(norm_.y, x) && stands(recorder, norm_.x, norm_.y, norm_.level) &&
                     recorder.written(range(norm_.gain, x.cols * sizeof(float))) < norm_.level;
  return is_it ? &norm_ : nullptr;
}

}  // namespace weft::gpu
