// SPDX-License-Identifier: Apache-2.0

#include "agent/journal_record.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace weft::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian; swap in number() and Reader");

constexpr std::array kNames{
    std::string_view("none"),
#define WEFT_RECORD(name, meaning) std::string_view(#name),
#include "agent/records.def"
#undef WEFT_RECORD
};

constexpr std::uint64_t kMaxNames = 65536;
// Of a target's first byte.
constexpr std::uint8_t kHalted = 1, kHasSignals = 2, kHasWeights = 2;
// Of an external environment's answer.
constexpr std::uint8_t kIsReset = 1, kTerminated = 2, kTruncated = 4;
enum FloatForm : std::uint8_t { kWhole = 0, kHighHalves = 1 };

/// Walks a payload; after the first thing that does not fit, every getter gives nothing and `is_good` is false.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    T value{};
    if (const ByteSpan bytes = take(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  bool boolean() {
    const auto value = number<std::uint8_t>();
    if (value > 1) is_good_ = false;
    return value == 1;
  }
  std::uint8_t flags(std::uint8_t known) {
    const auto value = number<std::uint8_t>();
    if ((value & ~known) != 0) is_good_ = false;
    return value;
  }
  std::string text() {
    const ByteSpan bytes = take(number<std::uint64_t>());
    return std::string(as_text(bytes));
  }
  ByteSpan file() { return take(number<std::uint64_t>()); }
  /// A count of things that take at least `least` bytes each.
  std::uint64_t count(std::uint64_t least) {
    const auto value = number<std::uint64_t>();
    if (value > rest_.size() / least) is_good_ = false;
    return is_good_ ? value : 0;
  }
  std::vector<float> floats() {
    const auto form = number<std::uint8_t>();
    if (form > kHighHalves) is_good_ = false;
    const std::uint64_t size = count(form == kWhole ? 4 : 2);
    std::vector<float> values(size);
    const ByteSpan bytes = take(size * (form == kWhole ? 4 : 2));
    if (bytes.empty()) return values;
    if (form == kWhole) {
      std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        std::uint16_t high;
        std::memcpy(&high, bytes.data() + 2 * i, 2);
        values[i] = std::bit_cast<float>(std::uint32_t{high} << 16);
      }
    }
    return values;
  }
  std::vector<std::uint32_t> labels() {
    const auto width = number<std::uint8_t>();
    if (width != 1 && width != 2 && width != 4) is_good_ = false;
    const std::uint64_t size = count(is_good_ ? width : 1);
    std::vector<std::uint32_t> values(size);
    const ByteSpan bytes = take(size * width);
    if (bytes.empty()) return values;
    const std::uint32_t none = UINT32_MAX >> (32 - 8 * width);
    for (std::size_t i = 0; i < size; ++i) {
      std::uint32_t stored = 0;
      std::memcpy(&stored, bytes.data() + i * width, width);
      values[i] = stored == none ? learning::kNoLabel : stored;
    }
    return values;
  }
  bool is_good() const noexcept { return is_good_; }
  bool is_done() const noexcept { return is_good_ && rest_.empty(); }

 private:
  ByteSpan take(std::uint64_t size) {
    if (!is_good_ || size > rest_.size()) {
      is_good_ = false;
      return {};
    }
    const ByteSpan taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  ByteSpan rest_;
  bool is_good_ = true;
};

LearnRecord read_learn(Reader& in) {
  LearnRecord record;
  record.samples = in.number<std::uint64_t>();
  const std::uint8_t flags = in.flags(kHalted | kHasWeights);
  record.halted = (flags & kHalted) != 0;
  // Each takes its name's length and its values' form and length at least.
  for (std::uint64_t i = 0, n = std::min(in.count(17), kMaxNames); i < n && in.is_good(); ++i)
    record.inputs.push_back({in.text(), in.floats()});
  for (std::uint64_t i = 0, n = std::min(in.count(26), kMaxNames); i < n && in.is_good(); ++i)
    record.targets.push_back({in.text(), in.labels(), in.floats()});
  for (LearnRecord::Output& target : record.targets)
    if (flags & kHasWeights) target.weights = in.floats();
  return record;
}

ObserveRecord read_observe(Reader& in) {
  ObserveRecord record{in.boolean(), {}};
  for (std::uint64_t i = 0, n = std::min(in.count(17), kMaxNames); i < n && in.is_good(); ++i)
    record.inputs.push_back({in.text(), in.floats()});
  return record;
}

TeachRecord read_teach(Reader& in) {
  TeachRecord record{in.number<std::uint64_t>(), false, {}};
  const std::uint8_t flags = in.flags(kHalted | kHasSignals);
  record.halted = (flags & kHalted) != 0;
  for (std::uint64_t i = 0, n = std::min(in.count(44), kMaxNames); i < n && in.is_good(); ++i)
    record.targets.push_back({in.text(), in.labels(), in.floats(), in.floats(), in.floats(), {}});
  for (TeachRecord::Output& target : record.targets) {
    if ((flags & kHasSignals) == 0 || !in.boolean()) continue;
    target.signal.emplace();
    for (float* const number : {&target.signal->error, &target.signal->decay, &target.signal->bound})
      *number = in.number<float>();
    target.signal->ends = in.boolean();
  }
  return record;
}

/// Values of the actions that are answered, as many for each. False: they are not.
bool read_values(Reader& in, std::vector<Answer>& answers) {
  const std::vector<float> values = in.floats();
  const auto is_step = [](const Answer& answer) { return !answer.is_reset; };
  const auto steps = static_cast<std::size_t>(std::count_if(answers.begin(), answers.end(), is_step));
  if (!in.is_good() || steps == 0 || values.empty() || values.size() % steps != 0) return false;
  auto from = values.begin();
  for (Answer& answer : answers) {
    if (answer.is_reset) continue;
    const auto end = from + static_cast<std::ptrdiff_t>(values.size() / steps);
    answer.values.assign(from, end);
    from = end;
  }
  return true;
}

/// Each is a byte of flags; then their actions, rewards and observations, all of them one after the other.
std::optional<ActExternalRecord> read_act_external(Reader& in) {
  ActExternalRecord record{in.number<std::uint64_t>(), in.boolean(), {}};
  record.answers.resize(in.count(1 + 1 + sizeof(double)));
  for (Answer& answer : record.answers) {
    const std::uint8_t flags = in.flags(kIsReset | kTerminated | kTruncated);
    answer.is_reset = (flags & kIsReset) != 0;
    answer.outcome.terminated = (flags & kTerminated) != 0;
    answer.outcome.truncated = (flags & kTruncated) != 0;
  }
  for (Answer& answer : record.answers) answer.outcome.reward = in.number<double>();
  const std::vector<std::uint32_t> actions = in.labels();
  const std::vector<float> seen = in.floats();
  const std::size_t count = record.answers.size(), width = count ? seen.size() / count : 0;
  if (!in.is_good() || actions.size() != count || seen.size() != count * width) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    record.answers[i].action = actions[i];
    record.answers[i].observation.assign(seen.begin() + static_cast<std::ptrdiff_t>(i * width),
                                         seen.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  }
  if (!in.is_done() && !read_values(in, record.answers)) return std::nullopt;
  return record;
}

std::optional<CommandRecord> read_command(Reader& in) {
  CommandRecord record;
  record.cell.z = in.number<std::uint32_t>();
  record.cell.y = in.number<std::uint32_t>();
  record.cell.x = in.number<std::uint32_t>();
  record.control = std::make_shared<mesh::Command>();
  mesh::Command& control = *record.control;
  const auto kind = in.number<std::uint8_t>();
  control.level = in.number<std::uint32_t>();
  control.parameter = in.number<std::uint32_t>();
  control.number = in.number<std::uint64_t>();
  const auto dtype = in.number<std::uint8_t>(), granularity = in.number<std::uint8_t>();
  control.not_before = in.number<std::uint64_t>();
  control.values = in.floats();
  if (kind >= mesh::kCommandKindCount || dtype >= kDtypeCount || granularity >= std::size(kGranularities) ||
      !check_granularity(static_cast<Dtype>(dtype), static_cast<Granularity>(granularity)))
    return std::nullopt;
  control.kind = static_cast<mesh::CommandKind>(kind);
  control.encoding = Encoding(static_cast<Dtype>(dtype), static_cast<Granularity>(granularity));
  return record;
}

std::optional<MessageRecord> read_message(Reader& in) {
  MessageRecord record;
  record.to.z = in.number<std::uint32_t>();
  record.to.y = in.number<std::uint32_t>();
  record.to.x = in.number<std::uint32_t>();
  record.to.l = in.number<std::uint32_t>();
  const auto type = in.number<std::uint8_t>(), kind = in.number<std::uint8_t>();
  if (type != static_cast<std::uint8_t>(mesh::MessageType::target) &&
      type != static_cast<std::uint8_t>(mesh::MessageType::user))
    return std::nullopt;
  record.mail = std::make_shared<mesh::Mail>(static_cast<mesh::MessageType>(type));
  mesh::Mail& mail = *record.mail;
  mail.number = in.number<std::uint32_t>();
  mail.not_before = in.number<std::uint64_t>();
  mail.deadline = in.number<std::uint64_t>();
  mail.rate = in.number<float>();
  mail.values = in.floats();
  const ByteSpan bytes = in.file();
  mail.bytes.assign(bytes.begin(), bytes.end());
  if (kind > static_cast<std::uint8_t>(mesh::Mail::Kind::ask)) return std::nullopt;
  mail.kind = static_cast<mesh::Mail::Kind>(kind);
  return record;
}

MarkerRecord read_mark(Reader& in) {
  MarkerRecord mark;
  mark.tick = in.number<std::uint64_t>();
  mark.hash.high = in.number<std::uint64_t>();
  mark.hash.low = in.number<std::uint64_t>();
  return mark;
}

AttachSessionRecord read_attach(Reader& in) {
  const bool allow_other_weights = in.boolean();
  return {allow_other_weights, in.file()};
}

/// Nothing: out of range. Lengths are the reader's matter.
std::optional<Record> read_any(RecordKind kind, Reader& in) {
  switch (kind) {
    case RecordKind::input: {
      InputRecord record{in.text(), in.number<std::uint64_t>(), {}};
      record.values = in.floats();
      return record;
    }
    case RecordKind::ticks: {
      const auto ticks = in.number<std::uint64_t>();
      return TicksRecord{ticks, in.boolean()};
    }
    case RecordKind::learn:
      return read_learn(in);
    case RecordKind::drain:
      return DrainRecord{in.boolean()};
    case RecordKind::command:
      return read_command(in);
    case RecordKind::add_session:
      return AddSessionRecord{};
    case RecordKind::remove_session:
      return RemoveSessionRecord{in.number<std::uint64_t>()};
    case RecordKind::reset_session:
      return ResetSessionRecord{in.number<std::uint64_t>()};
    case RecordKind::attach_session:
      return read_attach(in);
    case RecordKind::resume:
      return ResumeRecord{};
    case RecordKind::annotation: {
      std::string topic = in.text();
      return AnnotationRecord{std::move(topic), in.text()};
    }
    case RecordKind::marker:
      return read_mark(in);
    case RecordKind::checkpoint:
      return CheckpointRecord{in.number<std::uint64_t>()};
    case RecordKind::message:
      return read_message(in);
    case RecordKind::observe:
      return read_observe(in);
    case RecordKind::teach:
      return read_teach(in);
    case RecordKind::forgo:
      return ForgoRecord{in.number<std::uint64_t>()};
    case RecordKind::deliver:
      return DeliverRecord{};
    case RecordKind::act: {
      const auto steps = in.number<std::uint64_t>();
      return ActRecord{steps, in.boolean()};
    }
    case RecordKind::react:
      return ReactRecord{};
    case RecordKind::act_external:
      return read_act_external(in);
    case RecordKind::none:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(RecordKind kind) noexcept {
  const auto i = static_cast<std::size_t>(kind);
  return i < kNames.size() ? kNames[i] : "unknown";
}

template <class T>
void RecordBytes::number(T value) {
  const auto* const first = reinterpret_cast<const std::byte*>(&value);
  bytes_.insert(bytes_.end(), first, first + sizeof value);
}

void RecordBytes::text(std::string_view value) {
  number(std::uint64_t{value.size()});
  const ByteSpan bytes = as_bytes(value);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void RecordBytes::floats(std::span<const float> values) {
  std::uint32_t all = 0;
  for (const float value : values) all |= std::bit_cast<std::uint32_t>(value);
  const bool halves = (all & 0xffff) == 0;
  number(static_cast<std::uint8_t>(halves ? kHighHalves : kWhole));
  number(std::uint64_t{values.size()});
  const std::size_t at = bytes_.size();
  bytes_.resize(at + values.size() * (halves ? 2 : 4));
  if (!halves) {
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
    std::memcpy(bytes_.data() + at + 2 * i, &high, 2);
  }
}

void RecordBytes::labels(std::span<const std::uint32_t> values) {
  std::uint32_t largest = 0;
  for (const std::uint32_t value : values) largest = std::max(largest, value == learning::kNoLabel ? 0 : value);
  // All ones mean no label.
  const std::uint8_t width = largest < 0xff ? 1 : largest < 0xffff ? 2 : 4;
  number(width);
  number(std::uint64_t{values.size()});
  const std::size_t at = bytes_.size();
  bytes_.resize(at + values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(bytes_.data() + at + i * width, &values[i], width);
}

void RecordBytes::put_input(std::string_view port, std::uint64_t session, std::span<const float> values) {
  text(port);
  number(session);
  floats(values);
}

void RecordBytes::put_ticks(std::uint64_t ticks, bool halted) {
  number(ticks);
  number(std::uint8_t{halted});
}

void RecordBytes::put_learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
                            std::uint64_t samples, bool halted) {
  const bool has_weights =
      std::any_of(targets.begin(), targets.end(), [](const auto& t) { return !t.weights.empty(); });
  number(samples);
  number(static_cast<std::uint8_t>((halted ? kHalted : 0) | (has_weights ? kHasWeights : 0)));
  number(std::uint64_t{inputs.size()});
  for (const mesh::RunInput& input : inputs) {
    text(input.port);
    floats(input.values);
  }
  number(std::uint64_t{targets.size()});
  for (const learning::Target& target : targets) {
    text(target.output);
    labels(target.labels);
    floats(target.values);
  }
  for (const learning::Target& target : targets)
    if (has_weights) floats(target.weights);
}

void RecordBytes::put_drain(bool halted) { number(std::uint8_t{halted}); }

void RecordBytes::put_observe(std::span<const mesh::RunInput> inputs, bool halted) {
  number(std::uint8_t{halted});
  number(std::uint64_t{inputs.size()});
  for (const mesh::RunInput& input : inputs) {
    text(input.port);
    floats(input.values);
  }
}

void RecordBytes::put_teach(learning::Ticket ticket, std::span<const learning::Target> targets, bool halted) {
  const bool has_signals =
      std::any_of(targets.begin(), targets.end(), [](const auto& t) { return t.signal.has_value(); });
  number(ticket);
  number(static_cast<std::uint8_t>((halted ? kHalted : 0) | (has_signals ? kHasSignals : 0)));
  number(std::uint64_t{targets.size()});
  for (const learning::Target& target : targets) {
    text(target.output);
    labels(target.labels);
    floats(target.values);
    floats(target.gradient);
    floats(target.weights);
  }
  for (const learning::Target& target : targets) {
    if (!has_signals) break;
    number(std::uint8_t{target.signal.has_value()});
    if (!target.signal) continue;
    for (const float value : {target.signal->error, target.signal->decay, target.signal->bound}) number(value);
    number(std::uint8_t{target.signal->ends});
  }
}

void RecordBytes::put_act(std::uint64_t steps, bool halted) { put_ticks(steps, halted); }

void RecordBytes::put_act_external(std::uint64_t steps, std::span<const Answer> answers, bool halted) {
  put_ticks(steps, halted);
  number(std::uint64_t{answers.size()});
  std::vector<std::uint32_t> actions;
  std::vector<float> seen;
  for (const Answer& answer : answers) {
    number(static_cast<std::uint8_t>((answer.is_reset ? kIsReset : 0) | (answer.outcome.terminated ? kTerminated : 0) |
                                     (answer.outcome.truncated ? kTruncated : 0)));
    actions.push_back(answer.action);
    seen.insert(seen.end(), answer.observation.begin(), answer.observation.end());
  }
  for (const Answer& answer : answers) number(answer.outcome.reward);
  labels(actions);
  floats(seen);
  // Behind what records of choices have always had.
  std::vector<float> values;
  for (const Answer& answer : answers) values.insert(values.end(), answer.values.begin(), answer.values.end());
  if (!values.empty()) floats(values);
}

void RecordBytes::put_forgo(learning::Ticket ticket) { number(ticket); }

void RecordBytes::put_command(Coord cell, const mesh::Command& control) {
  number(std::uint32_t{cell.z});
  number(std::uint32_t{cell.y});
  number(std::uint32_t{cell.x});
  number(static_cast<std::uint8_t>(control.kind));
  number(control.level);
  number(control.parameter);
  number(control.number);
  number(static_cast<std::uint8_t>(control.encoding.dtype));
  number(static_cast<std::uint8_t>(control.encoding.granularity));
  number(control.not_before);
  floats(control.values);
}

void RecordBytes::put_message(Coord to, const mesh::Mail& mail) {
  for (const std::uint32_t place : {to.z, to.y, to.x, to.l}) number(place);
  number(static_cast<std::uint8_t>(mail.type));
  number(static_cast<std::uint8_t>(mail.kind));
  number(mail.number);
  number(mail.not_before);
  number(mail.deadline);
  number(mail.rate);
  floats(mail.values);
  number(std::uint64_t{mail.bytes.size()});
  bytes_.insert(bytes_.end(), mail.bytes.begin(), mail.bytes.end());
}

void RecordBytes::put_session(std::uint64_t session) { number(session); }

void RecordBytes::put_attach(ByteSpan file, bool allow_other_weights) {
  number(std::uint8_t{allow_other_weights});
  number(std::uint64_t{file.size()});
  bytes_.insert(bytes_.end(), file.begin(), file.end());
}

void RecordBytes::put_annotation(std::string_view topic, std::string_view words) {
  text(topic);
  text(words);
}

void RecordBytes::put_marker(std::uint64_t tick, Hash128 hash) {
  number(tick);
  number(hash.high);
  number(hash.low);
}

void RecordBytes::put_tick(std::uint64_t tick) { number(tick); }

std::span<const Answer> ActExternalRecord::of(std::uint64_t first, std::uint64_t count) const {
  // A step's answers are that to its action, and before it that to a reset where it began an episode.
  const auto end_of = [&](std::uint64_t wanted) {
    std::size_t end = 0;
    for (std::uint64_t done = 0; done < wanted && end < answers.size(); ++end) done += !answers[end].is_reset;
    return end;
  };
  const std::size_t begin = end_of(first);
  return std::span(answers).subspan(begin, end_of(first + count) - begin);
}

std::vector<learning::Target> TeachRecord::views() const {
  std::vector<learning::Target> all;
  for (const Output& each : targets)
    all.push_back({each.name, each.labels, each.values, each.gradient, each.weights, each.signal});
  return all;
}

Result<Record> read_record(std::uint32_t kind, ByteSpan payload) {
  Reader in(payload);
  if (kind == 0 || kind >= kNames.size())
    return fail(Errc::unsupported, "kind " + std::to_string(kind) + " is unknown; the journal may be of a newer Weft");
  auto record = read_any(static_cast<RecordKind>(kind), in);
  if (!record || !in.is_done())
    return fail(Errc::corrupt, std::string(kNames[kind]) + " of " + std::to_string(payload.size()) + " bytes: " +
                                   (!record        ? "a value is out of range"
                                    : in.is_good() ? "bytes are left over"
                                                   : "it is too short"));
  return *std::move(record);
}

}  // namespace weft::agent
