// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Watches another layer, its only source, and acts on it under a rule.
///   y = mean, deviation, active fraction and rms of what the source committed
/// While the rule's condition has held for `patience` ticks in a row and `cooldown` ticks have passed since it last
/// acted, it sends the source's cell an order, which is carried out 3 ticks later, on every thread count
/// (docs/decisions/0009):
///   morph  store the source's matrices as `to`
///   reset  outputs and hidden state of the source's cell to zero
///   swap   of two sources of equal width the one watched is reset and disabled, the other enabled, and watched from
///          then on: a spare. y then has the four numbers of each. Add the two up to read whichever works.
/// Conditions are about the mean over all sessions, since the source's weights serve them all:
///   mean, deviation, active, rms   as in y; `active` is the share of |x| above `active_above`
///   gain_drift                     rms against its slow average, the larger by the smaller: 1 is no drift
///   gradient_storm                 rms of the source's last gradient against its slow average; only while it learns
/// Slow averages run over `horizon` ticks; the last two act only after so many. Several rules are several such layers;
/// at most four may watch one cell. Nothing travels back: watching does not steer what is watched.
/// @shape  x [rows, ...] -> y [rows, 4], with swap [rows, 8]
/// @exact  statistics by rule R2; the rule in float64 with + - * / alone; its memory is part of checkpoints
/// @source original here
///
/// parameter    | default | unit   | meaning
/// -------------|---------|--------|--------
/// look         | rms     | -      | mean, deviation, active, rms, gain_drift, gradient_storm
/// above        | none    | of it  | the condition holds above this; this or `below` is required
/// below        | none    | of it  | the condition holds below this
/// action       | reset   | -      | morph, reset, swap
/// to           | none    | -      | with morph, required: a dtype
/// patience     | 1       | ticks  | how long the condition must hold
/// cooldown     | 1000    | ticks  | from one action to the next, 4 or more
/// horizon      | 256     | ticks  | of the slow averages
/// active_above | 0       | values | what counts as active
Result<std::unique_ptr<Layer>> make_metacognition(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
