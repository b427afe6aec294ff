// SPDX-License-Identifier: Apache-2.0

#include "text/grammar.hpp"
#include "text/internal/grammar_rules.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace weft::text {
namespace {

using Rules = Grammar::Rules;
using NodeId = std::uint32_t;
using StateId = std::uint32_t;

constexpr NodeId kDone = 0;      // the node of a text that may end
constexpr StateId kNowhere = 0;  // the state of a text that is none
constexpr std::size_t kMostWays = std::size_t{1} << 14, kMostNodes = std::size_t{1} << 20;
// Ways and places that are looked at for one token: what a grammar of strangers may cost those who wait beside it.
constexpr std::size_t kMostPlaces = std::size_t{1} << 20;

/// Place in the rules and what comes behind the rule that it is in.
struct Node {
  std::uint32_t element;
  NodeId behind;
};

/// A text's ways through the rules. Each way is a node at a character; equal nodes and equal sets of them are one, so
/// that steps are remembered.
class Ways {
 public:
  explicit Ways(const Rules& rules) : rules_(rules) { forget(); }

  /// The state of the empty text. Nothing: too many ways.
  std::optional<StateId> start() {
    std::vector<NodeId> ways;
    Open open;
    enter_rule(rules_.root, kDone, open);
    settle(open, ways);
    if (ways.size() > kMostWays) return std::nullopt;
    return state_of(std::move(ways));
  }
  const std::vector<NodeId>& ways(StateId state) const { return *sets_[state]; }

  /// The state after a character; kNowhere where there is none. Nothing: too many ways, or too many places since
  /// they were last forgotten.
  std::optional<StateId> after(StateId state, char32_t c) {
    const std::uint64_t key = std::uint64_t{state} << 32 | c;
    if (const auto known = steps_.find(key); known != steps_.end()) return known->second;
    if (places_ > kMostPlaces) return std::nullopt;
    std::vector<NodeId> ways;
    Open open;
    for (const NodeId way : *sets_[state])
      if (way != kDone && set_at(way).has(c)) leave_element(nodes_[way].element, nodes_[way].behind, open);
    settle(open, ways);
    places_ += sets_[state]->size() + open.seen.size();
    if (ways.size() > kMostWays) return std::nullopt;
    const StateId made = ways.empty() ? kNowhere : state_of(std::move(ways));
    steps_.emplace(key, made);
    return made;
  }
  bool meets(StateId state, char32_t low, char32_t high) const {
    return std::any_of(sets_[state]->begin(), sets_[state]->end(),
                       [&](NodeId way) { return way != kDone && set_at(way).meets(low, high); });
  }
  void forget_places() noexcept { places_ = 0; }
  /// Forgets steps and nodes that `state` does not need, once there are many; its number then.
  StateId tidy(StateId state) {
    if (nodes_.size() < kMostNodes && sets_.size() < kMostNodes && steps_.size() < kMostNodes) return state;
    const std::vector<NodeId> ways = *sets_[state];
    const std::vector<Node> old = std::move(nodes_);
    forget();
    std::unordered_map<NodeId, NodeId> moved{{kDone, kDone}};
    std::vector<NodeId> kept;
    for (const NodeId way : ways) {
      std::vector<NodeId> chain;
      for (NodeId node = way; !moved.contains(node); node = old[node].behind) chain.push_back(node);
      for (; !chain.empty(); chain.pop_back())
        moved[chain.back()] = node_of(old[chain.back()].element, moved[old[chain.back()].behind]);
      kept.push_back(moved[way]);
    }
    std::sort(kept.begin(), kept.end());
    return state_of(std::move(kept));
  }

 private:
  /// Places that are still to be looked at, and those that were.
  struct Open {
    std::vector<std::pair<std::uint32_t, NodeId>> places;
    std::set<std::pair<std::uint32_t, NodeId>> seen;
  };

  void forget() {
    nodes_.assign(1, {});
    node_ids_.clear();
    steps_.clear();
    states_.clear();
    sets_.clear();
    (void)state_of({});  // kNowhere
  }
  const CharacterSet& set_at(NodeId way) const { return rules_.sets[rules_.elements[nodes_[way].element].index]; }

  NodeId node_of(std::uint32_t element, NodeId behind) {
    const auto [found, is_new] =
        node_ids_.emplace(std::uint64_t{element} << 32 | behind, static_cast<NodeId>(nodes_.size()));
    if (is_new) nodes_.push_back({element, behind});
    return found->second;
  }
  StateId state_of(std::vector<NodeId> ways) {
    const auto [found, is_new] = states_.emplace(std::move(ways), static_cast<StateId>(sets_.size()));
    if (is_new) sets_.push_back(&found->first);
    return found->second;
  }

  bool ends(std::uint32_t element) const {
    return rules_.elements[element].part == GrammarPart::next || rules_.elements[element].part == GrammarPart::end;
  }
  void enter_rule(std::uint32_t rule, NodeId behind, Open& open) {
    std::uint32_t element = rules_.begins[rule];
    open.places.emplace_back(element, behind);
    for (; rules_.elements[element].part != GrammarPart::end; ++element)
      if (rules_.elements[element].part == GrammarPart::next) open.places.emplace_back(element + 1, behind);
  }
  void leave_element(std::uint32_t element, NodeId behind, Open& open) {
    open.places.emplace_back(element + 1, behind);
  }

  /// Follows calls and returns up to characters.
  void settle(Open& open, std::vector<NodeId>& ways) {
    while (!open.places.empty() && open.seen.size() < 16 * kMostWays) {
      const auto [element, behind] = open.places.back();
      open.places.pop_back();
      if (!open.seen.emplace(element, behind).second) continue;
      if (ends(element)) {
        if (behind == kDone)
          ways.push_back(kDone);
        else
          open.places.emplace_back(nodes_[behind].element, nodes_[behind].behind);
      } else if (rules_.elements[element].part == GrammarPart::character) {
        ways.push_back(node_of(element, behind));
      } else {
        // A call with nothing behind it needs no place to come back to.
        enter_rule(rules_.elements[element].index, ends(element + 1) ? behind : node_of(element + 1, behind), open);
      }
    }
    std::sort(ways.begin(), ways.end());
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
    if (!open.places.empty()) ways.resize(kMostWays + 1);  // too many to say
  }

  struct SetHash {
    std::size_t operator()(const std::vector<NodeId>& ways) const noexcept {
      std::uint64_t hash = ways.size();
      for (const NodeId way : ways) hash = (hash ^ way) * 0x9E3779B97F4A7C15u + (hash >> 29);
      return static_cast<std::size_t>(hash);
    }
  };

  const Rules& rules_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, NodeId> node_ids_;
  std::unordered_map<std::vector<NodeId>, StateId, SetHash> states_;
  std::vector<const std::vector<NodeId>*> sets_;
  std::unordered_map<std::uint64_t, StateId> steps_;
  std::size_t places_ = 0;
};

/// A character of which some bytes have come.
struct Partial {
  char32_t bits = 0, least = 0;
  std::size_t wanted = 0;  // bytes that are still to come
};

}  // namespace

struct GrammarState::Parts {
  explicit Parts(const Grammar& of) : rules(of.rules_), ways(*rules) {
    const auto begin = ways.start();
    if (begin)
      state = *begin;
    else
      met_limit = true;
  }

  std::shared_ptr<const Rules> rules;
  Ways ways;
  StateId state = kNowhere;
  Partial partial;
  bool met_limit = false;

  enum class Outcome { on, nowhere, too_many };

  /// One more byte for a character; at its end one more character for the state.
  Outcome step(StateId& at, Partial& part, unsigned char byte) {
    if (part.wanted == 0) {
      if (byte < 0x80) return advance(at, byte);
      if (byte < 0xC2 || byte > 0xF4) return Outcome::nowhere;
      part = byte >= 0xF0   ? Partial{byte & 7u, 0x10000, 3}
             : byte >= 0xE0 ? Partial{byte & 15u, 0x800, 2}
                            : Partial{byte & 31u, 0x80, 1};
    } else {
      if ((byte & 0xC0) != 0x80) return Outcome::nowhere;
      part.bits = part.bits << 6 | (byte & 63u);
      --part.wanted;
    }
    if (part.wanted == 0) return advance(at, part.bits);
    return can_end(at, part) ? Outcome::on : Outcome::nowhere;
  }
  Outcome advance(StateId& at, char32_t c) {
    const auto next = ways.after(at, c);
    if (!next) {
      met_limit = true;
      return Outcome::too_many;
    }
    at = *next;
    return at == kNowhere ? Outcome::nowhere : Outcome::on;
  }
  /// True where a character that begins so may come.
  bool can_end(StateId at, const Partial& part) const {
    const std::size_t shift = 6 * part.wanted;
    const char32_t low = std::max<char32_t>(part.bits << shift, part.least),
                   high = std::min<char32_t>((part.bits << shift) + (char32_t{1} << shift) - 1, 0x10FFFF);
    if (low > high) return false;
    return (low < 0xD800 && ways.meets(at, low, std::min<char32_t>(high, 0xD7FF))) ||
           (high > 0xDFFF && ways.meets(at, std::max<char32_t>(low, 0xE000), high));
  }
};

GrammarState::GrammarState(const Grammar& grammar) : parts_(std::make_unique<Parts>(grammar)) {}
GrammarState::GrammarState(GrammarState&&) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState&&) noexcept = default;
GrammarState::~GrammarState() = default;

bool GrammarState::allows(std::string_view bytes) {
  StateId at = parts_->state;
  Partial partial = parts_->partial;
  return std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
    return parts_->step(at, partial, static_cast<unsigned char>(byte)) == Parts::Outcome::on;
  });
}

Status GrammarState::take(std::string_view bytes) {
  StateId at = parts_->state;
  Partial partial = parts_->partial;
  for (const char byte : bytes) {
    parts_->ways.forget_places();
    const Parts::Outcome outcome = parts_->step(at, partial, static_cast<unsigned char>(byte));
    if (outcome == Parts::Outcome::too_many)
      return fail(Errc::too_large, "the grammar has more than " + std::to_string(kMostWays) +
                                       " ways to go on at once, or " + std::to_string(kMostPlaces) +
                                       " places to look at for one character");
    if (outcome == Parts::Outcome::nowhere)
      return fail(Errc::invalid_argument, "the grammar does not allow " + in_quotes(bytes) + " here");
  }
  parts_->ways.forget_places();
  parts_->state = parts_->ways.tidy(at);
  parts_->partial = partial;
  return {};
}

bool GrammarState::met_limit() const noexcept { return parts_->met_limit; }

bool GrammarState::is_complete() const noexcept {
  const auto& ways = parts_->ways.ways(parts_->state);
  return parts_->partial.wanted == 0 && !ways.empty() && ways.front() == kDone;
}

bool GrammarState::is_closed() const noexcept { return is_complete() && parts_->ways.ways(parts_->state).size() == 1; }

}  // namespace weft::text
