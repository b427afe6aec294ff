// SPDX-License-Identifier: Apache-2.0

#include "models/draft.hpp"

#include "models/language_model.hpp"

#include <string>
#include <utility>

namespace weft::models {
namespace {

/// Tokens of a model, each with its id.
Status check_same_tokens(const text::Tokenizer& draft, const text::Tokenizer& target) {
  const auto refuse = [](const std::string& why) {
    return fail(Errc::shape_mismatch, "the draft model has another vocabulary than the model: " + why +
                                          "; give one whose tokens have the same ids, or none");
  };
  if (draft.size() != target.size())
    return refuse(std::to_string(draft.size()) + " tokens, expected " + std::to_string(target.size()));
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto id = static_cast<text::TokenId>(i);
    const std::string own = draft.token_bytes(id), wanted = target.token_bytes(id);
    if (own == wanted && draft.is_special(id) == target.is_special(id)) continue;
    return refuse("token " + std::to_string(i) + " is '" + own + "', expected '" + wanted + "'");
  }
  return {};
}

}  // namespace

std::vector<text::TokenId> repeated_after(std::span<const text::TokenId> ids, std::size_t most) {
  constexpr std::size_t kShortest = 2, kLongest = 16;
  std::size_t best = 0, length = kShortest - 1;
  for (std::size_t end = ids.size(); end-- > 1;) {  // of the tokens before the place, the last one first
    std::size_t same = 0;
    while (same < std::min(kLongest, end) && ids[end - 1 - same] == ids[ids.size() - 1 - same]) ++same;
    if (same > length) best = end, length = same;
    if (length == kLongest) break;
  }
  std::vector<text::TokenId> after;
  // The place may be so near the end that few tokens follow: then they come again and again.
  while (best != 0 && after.size() < most)
    after.push_back(best + after.size() < ids.size() ? ids[best + after.size()]
                                                     : after[after.size() + best - ids.size()]);
  return after;
}

Result<DraftModel> DraftModel::make(const LanguageModel& model, const LanguageModel& target, std::size_t slots,
                                    std::size_t context, std::uint64_t max_memory) {
  WEFT_CHECK(check_same_tokens(*model.tokenizer, *target.tokenizer));
  if (model.context) context = std::min(context, model.context);
  auto batch = DecodingBatch::begin(*model.mesh, slots, context, max_memory);
  if (!batch) return fail(std::move(batch).error().within("draft model"));
  if (const Status can = batch->can_roll_back(); !can) return fail(Error(can.error()).within("draft model"));
  return DraftModel(*std::move(batch), slots);
}

void DraftModel::release(std::size_t slot) noexcept {
  taken_[slot].clear();
  batch_.release(slot);
}

std::vector<text::TokenId> DraftModel::guess(std::size_t slot, const TokenHistory& before, Sampler sampler,
                                             std::size_t most) {
  std::vector<text::TokenId>& taken = taken_[slot];
  std::vector<text::TokenId> all(before.ids.begin(), before.ids.end()), guesses;
  if (all.size() > batch_.context()) return guesses;
  // The last token is taken anew where all are known, as the logits after it are not kept.
  const auto ends = std::mismatch(taken.begin(), taken.end(), all.begin(), all.end() - 1);
  taken.erase(ends.first, taken.end());
  if (!batch_.roll_back(slot, taken.size())) return guesses;
  while (guesses.size() < most && all.size() <= batch_.context()) {
    const auto logits = batch_.accept(slot, std::span(all).subspan(taken.size()));
    if (!logits) {
      taken.clear();
      break;
    }
    taken = all;
    const auto id = sampler.pick(*logits, {all, before.prompt});
    if (!id) break;
    guesses.push_back(*id);
    all.push_back(*id);
  }
  return guesses;
}

}  // namespace weft::models
