// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/late_steps.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include <algorithm>
#include <vector>

namespace weft::learning {

using Fate = LateSample::Fate;

std::optional<std::uint64_t> labelled_at(const LearnerParts& p, std::uint64_t tick) noexcept {
  const std::int64_t sample = p.clock.sample_at(tick);
  if (sample == SampleClock::kNoSample) return std::nullopt;
  const auto position = static_cast<std::uint64_t>(sample);
  if (position < p.late.first_position() || !p.rings.is_labelled(position)) return std::nullopt;
  return position;
}

void plan_errors(LearnerParts& p, std::uint64_t steps) {
  const std::uint64_t tick = p.mesh.ticks();
  p.late.plan(steps);
  for (std::uint64_t s = 0; s < steps; ++s) {
    LateSamples::Entry& entry = p.late.entry(p.clock.now.steps + s);
    entry = {};
    if (s == 0 && p.late.next_entry().is_one)
      entry = p.late.next_entry();
    else if (const auto position = labelled_at(p, tick + s); position && !p.clock.stands)
      entry = {*position, tick + s, true};
  }
}

void take_answers(LearnerParts& p) {
  LateSample* const sample = p.late.answered_at(p.mesh.ticks());
  if (!sample) return;
  sample->y.clear();
  for (std::size_t o = 0; o < p.rings.outputs().size(); ++o)
    for (std::size_t session = 0; session < p.mesh.sessions(); ++session) {
      const auto y = p.mesh.output(p.mesh.spec().outputs[o].name, session);
      WEFT_ASSERT(y, "an output of the graph is one of the mesh");
      sample->y.insert(sample->y.end(), y->begin(), y->end());
    }
  sample->has_answer = true;
  if (!sample->has_target) return;
  score_late(p, *sample);
  p.late.close(*sample, Fate::taught);
}

void score_late(LearnerParts& p, const LateSample& sample) {
  const kernels::FlushSubnormals scope;
  kernels::CpuStream stream;
  const float* y = sample.y.data();
  std::vector<float> slope;
  for (std::size_t o = 0; o < p.rings.outputs().size(); ++o) {
    const OutputRing& output = p.rings.outputs()[o];
    const TargetRow& target = sample.target[o];
    slope.resize(output.width);
    for (std::size_t i = 0; i < target.labels.size(); ++i) {
      const std::size_t learner = i / output.tokens, part = i % output.tokens, first = output.starts[part],
                        width = output.starts[part + 1] - first;
      // Rows are read only; operations take views that could be written.
      const kernels::MatrixView row{const_cast<float*>(y) + learner * output.width + first, 1, width, width};
      Score score{sample.ticket, static_cast<std::uint32_t>(learner)};
      score.token = static_cast<std::uint32_t>(part);
      stream.row_argmax({row, &score.prediction});
      if (target.labels[i] < kGradient) {
        const kernels::MatrixView gradient{slope.data(), 1, width, width};
        score.label = target.labels[i];
        if (targets_of(p.options.loss) == LossTargets::values)
          stream.value_loss({p.options.loss,
                             p.options.delta,
                             row,
                             {target.values.data() + learner * output.width, 1, width, width},
                             &score.loss,
                             gradient});
        else
          stream.cross_entropy({row, &target.labels[i], &score.loss, gradient});
      }
      p.add_score(score);
    }
    y += output.width * p.mesh.sessions();
  }
}

}  // namespace weft::learning
