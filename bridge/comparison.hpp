// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/report_store.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <string>

namespace weft::bridge {

/// Comparison of a bedrock's reports: of each model and planet its steps, and pairs of its first native step with every
/// exported one and with this host's. Only the planets pytorch, tensorflow, jax and sklearn appear. A pair that cannot
/// be computed, because one side is missing or has another shape, is pending.
/// @error storage
Result<Json> comparison_of(const ReportStore& reports, Bedrock bedrock);
/// A line for each pair: "model planet native/native -> loom/entity max 1e-07 mean 2e-08". @error storage
Result<std::string> comparison_text_of(const ReportStore& reports, Bedrock bedrock);

/// The models of the bedrock dense that have a `meta.json` in `models/<planet>/<model>`, their files and reports, and
/// the fixture that the client makes. @error storage
Result<Json> catalog_of(const ReportStore& reports);

}  // namespace weft::bridge
