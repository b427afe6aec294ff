// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/actor_runner.hpp"

#include "mesh/runtime/actor_fields.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/state.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace weft::mesh {

/// One firing of the actor. What a handler sends counts when the handler has returned.
class ActorRunner::Context final : public CellContext {
 public:
  Context(ActorRunner& runner, const Observation& seen, CommandSink& sink)
      : runner_(runner), seen_(seen), sink_(sink) {}

  const Observation& seen() const noexcept { return seen_; }
  std::uint64_t tick() const noexcept override { return seen_.tick; }
  Coord at() const noexcept override { return runner_.graph_.nodes()[runner_.node_].at; }
  std::size_t sessions() const noexcept override { return seen_.output.rows; }

  Status publish(std::span<const float> values, std::size_t session) override {
    const std::string object = runner_.graph_.nodes()[runner_.node_].object + ", publish: ";
    if (session >= seen_.output.rows)
      return fail(Errc::out_of_range,
                  object + "session " + std::to_string(session) + " of " + std::to_string(seen_.output.rows));
    if (values.size() != seen_.output.cols)
      return fail(Errc::shape_mismatch, object + std::to_string(values.size()) + " values where " +
                                            std::to_string(seen_.output.cols) + " are expected");
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
      return fail(Errc::not_finite, object + "a value is not finite");
    std::copy(values.begin(), values.end(), seen_.output.row(session));
    return {};
  }

  Result<std::uint64_t> tell(Coord to, MessagePointer message) override {
    const std::string object = runner_.graph_.nodes()[runner_.node_].object + ", message to " + to_string(to) + ": ";
    WEFT_TRY(const ActorNeighbour* const neighbour, receiver(object, to, message.get()));
    return message->type == MessageType::command
               ? tell_command(object, *neighbour, std::static_pointer_cast<Command>(std::move(message)))
               : tell_mail(object, *neighbour, std::static_pointer_cast<Mail>(std::move(message)));
  }

  Result<std::uint64_t> ask(Coord to, MailPointer mail, std::uint64_t ticks) override {
    const std::string object = runner_.graph_.nodes()[runner_.node_].object + ", question to " + to_string(to) + ": ";
    if (ticks == 0) return fail(Errc::invalid_argument, object + "0 ticks; a reply takes 2 at least");
    if (runner_.own_.questions.size() >= kMostQuestions)
      return fail(Errc::full, object + std::to_string(kMostQuestions) + " others wait for a reply");
    WEFT_TRY(const ActorNeighbour* const neighbour, receiver(object, to, mail.get()));
    const std::uint64_t deadline = ticks_after(tick(), ticks);
    WEFT_TRY(const std::uint64_t number, tell_mail(object, *neighbour, std::move(mail), deadline));
    runner_.own_.questions.push_back({number, deadline, neighbour->place.node});
    return number;
  }

  void reply(std::vector<float> values) override { reply_ = std::move(values); }

  /// Before a handler runs.
  void begin(const Mail* question) {
    reply_.clear();
    question_ = question;
    entries_ = runner_.outbox_.size();
    questions_ = runner_.own_.questions.size();
    commands_.clear();
  }
  /// After it has returned: what it sent goes out.
  void commit() {
    answer(0);
    // From here on nothing fails as a whole.
    for (auto& [cell, command] : commands_) {
      try {
        sink_.send(cell, command);
      } catch (const std::bad_alloc&) {
        command->finish(tick(), fail(Errc::full, "no memory"));  // a text that needs none
      }
    }
    commands_.clear();
  }
  /// After one that threw: nothing of it goes out, and whom it handled a question of is told.
  void drop() noexcept {
    const auto answer_dropped = [&](Message& message) {
      message.finish(tick(), fail(Errc::internal, "sender threw"));  // a text that needs no memory
    };
    runner_.outbox_.drop(entries_, answer_dropped);
    runner_.own_.questions.resize(questions_);
    commanded_.resize(commanded_.size() - commands_.size());
    for (auto& [cell, command] : commands_) answer_dropped(*command);
    commands_.clear();
    reply_.clear();
    try {
      answer(static_cast<std::uint32_t>(Errc::internal) + 1);
    } catch (const std::bad_alloc&) {
      // The question ends by its deadline.
    }
  }
  std::vector<float> take_reply() { return std::move(reply_); }

 private:
  Result<const ActorNeighbour*> receiver(const std::string& object, Coord to, const Message* message) const {
    if (!message) return fail(Errc::invalid_argument, object + "there is none");
    const ActorNeighbour* const neighbour = runner_.neighbour(to);
    if (!neighbour)
      return fail(Errc::unknown_name, object + "no layer there is linked with it; name the place in \"tells\"");
    WEFT_CHECK(check_message(object, *message));
    return neighbour;
  }

  Result<std::uint64_t> tell_command(const std::string& object, const ActorNeighbour& neighbour,
                                     CommandMessage command) {
    if (!neighbour.may_command)
      return fail(Errc::unsupported, object + "it commands cells that it reads or names in \"tells\", not its readers");
    const auto sent = std::count(commanded_.begin(), commanded_.end(), neighbour.place.cell);
    if (static_cast<std::size_t>(sent) >= kMostCommands)
      return fail(Errc::full, object + std::to_string(kMostCommands) + " commands went there in this tick");
    if (command->not_before > ticks_after(tick(), kMostAhead))
      return fail(Errc::out_of_range, object + "for tick " + std::to_string(command->not_before) + ", at most " +
                                          std::to_string(kMostAhead) + " ticks ahead of " + std::to_string(tick()) +
                                          "; send it later");
    if (!command->claim()) return sent_before(object);
    command->sender = runner_.node_ + 1;
    command->level = neighbour.place.level;
    command->not_before = std::max(command->not_before, tick() + 3);  // as Observer says
    commanded_.reserve(commanded_.size() + 1);
    commands_.emplace_back(neighbour.place.cell, std::move(command));
    commanded_.push_back(neighbour.place.cell);
    return ++runner_.own_.sent;
  }

  /// With a `deadline` it is a question.
  Result<std::uint64_t> tell_mail(const std::string& object, const ActorNeighbour& neighbour, MailPointer mail,
                                  std::optional<std::uint64_t> deadline = std::nullopt) {
    const bool is_trained = neighbour.may_train && mail->type == MessageType::target;
    if (!neighbour.handles_mail && !is_trained)
      return fail(Errc::unsupported, object + "the layer there handles no " + std::string(name(mail->type)) +
                                         (mail->type == MessageType::target ? "; name it in \"trains\"" : ""));
    if (runner_.outbox_.is_full())
      return fail(Errc::full, object + std::to_string(Outbox::kMost) + " messages went out in this tick");
    if (!mail->claim()) return sent_before(object);
    if (deadline) {
      mail->kind = Mail::Kind::ask;
      mail->deadline = *deadline;
    }
    mail->sender = runner_.node_ + 1;
    mail->level = neighbour.place.level;
    mail->not_before = std::max(mail->not_before, tick() + 1);
    mail->failure = 0;
    mail->sequence = ++runner_.own_.sent;
    runner_.outbox_.put(neighbour.place.cell, std::move(mail));
    return runner_.own_.sent;
  }

  /// The reply to a neighbour's question.
  void answer(std::uint32_t failure) {
    if (!question_ || question_->sender == 0 || question_->kind != Mail::Kind::ask) return;
    const auto to = runner_.place_of(question_->sender);
    const ActorNeighbour* const neighbour = to ? runner_.neighbour(*to) : nullptr;
    if (!neighbour || runner_.outbox_.is_full()) return;  // the question ends by its deadline
    MailPointer reply = make_mail(question_->number, reply_);
    reply->kind = Mail::Kind::reply;
    reply->failure = failure;
    reply->sender = runner_.node_ + 1;
    reply->level = neighbour->place.level;
    reply->not_before = tick() + 1;
    reply->sequence = question_->sequence;
    runner_.outbox_.put(neighbour->place.cell, std::move(reply));
  }

  ActorRunner& runner_;
  const Observation& seen_;
  CommandSink& sink_;
  const Mail* question_ = nullptr;
  std::vector<float> reply_;
  std::vector<std::pair<std::uint32_t, CommandMessage>> commands_;  // of the handler that runs
  std::vector<std::uint32_t> commanded_;                            // cells that were sent commands in this tick
  std::size_t entries_ = 0, questions_ = 0;
};

ActorRunner::ActorRunner(const Graph& graph, NodeId node, std::uint32_t level, std::unique_ptr<CellActor> actor,
                         std::vector<ActorNeighbour> neighbours)
    : graph_(graph), node_(node), level_(level), actor_(std::move(actor)), neighbours_(std::move(neighbours)) {
  std::sort(neighbours_.begin(), neighbours_.end());
}

const ActorNeighbour* ActorRunner::neighbour(Coord at) const noexcept {
  const auto found = std::lower_bound(neighbours_.begin(), neighbours_.end(), at,
                                      [](const ActorNeighbour& a, Coord b) { return a.at < b; });
  return found != neighbours_.end() && found->at == at ? &*found : nullptr;
}

std::optional<Coord> ActorRunner::place_of(std::uint32_t sender) const {
  if (sender == 0) return std::nullopt;
  return graph_.nodes()[sender - 1].at;
}

void ActorRunner::observe(const Observation& seen, CommandSink& to) {
  Context context(*this, seen, to);
  outbox_.begin(seen.tick + 1);
  // The output stays until it is published anew.
  const kernels::MatrixView before = seen.state->output(node_, seen.tick);
  for (std::size_t b = 0; b < before.rows; ++b) std::copy_n(before.row(b), before.cols, seen.output.row(b));
  seen.cell->collect_mail(seen.tick);
  CellMail& box = *seen.cell->mail();
  for (MailPointer mail = box.next(level_, seen.tick); mail; mail = box.next(level_, seen.tick)) handle(context, mail);
  end_questions(context);
  show_activations(context);
}

template <class Handler>
void ActorRunner::run_handler(Context& context, const Mail* question, Handler&& handler) {
  context.begin(question);
  try {
    handler();
    context.commit();
  } catch (...) {
    context.drop();
    throw;
  }
}

void ActorRunner::handle(Context& context, const MailPointer& mail) {
  const std::uint64_t tick = context.tick();
  try {
    if (mail->deadline != 0 && tick > mail->deadline)
      return mail->finish(tick, fail(Errc::timed_out, graph_.nodes()[node_].object + ": its deadline, tick " +
                                                          std::to_string(mail->deadline) + ", has passed"));
    dispatch(context, *mail);
    mail->finish(tick, {}, context.take_reply());
  } catch (const std::exception& error) {
    mail->finish(tick, threw(error.what()));
    throw;
  } catch (...) {
    mail->finish(tick, threw(""));
    throw;
  }
}

Status ActorRunner::threw(std::string_view what) const noexcept {
  try {
    return fail(Errc::internal,
                graph_.nodes()[node_].object + ": its handler threw" + (what.empty() ? "" : ": ") + std::string(what));
  } catch (const std::bad_alloc&) {
    return fail(Errc::internal, "handler threw");  // a text that needs no memory
  }
}

void ActorRunner::dispatch(Context& context, const Mail& mail) {
  const std::optional<Coord> from = place_of(mail.sender);
  if (mail.kind == Mail::Kind::reply) {
    const auto question = std::find_if(own_.questions.begin(), own_.questions.end(), [&](const Question& one) {
      return one.number == mail.sequence && one.to + 1 == mail.sender;
    });
    if (question == own_.questions.end()) return;  // it came too late
    own_.questions.erase(question);
    std::optional<Errc> failure;
    if (mail.failure != 0) failure = static_cast<Errc>(mail.failure - 1);
    run_handler(context, nullptr, [&] {
      actor_->on_reply({from.value_or(Coord()), mail.sequence, failure, mail.values}, context);
    });
  } else if (mail.type == MessageType::target) {
    run_handler(context, &mail, [&] { actor_->on_target({from, mail.number, mail.values, mail.rate}, context); });
  } else {
    run_handler(context, &mail, [&] {
      actor_->on_message({from, mail.number, mail.values, mail.bytes, mail.kind == Mail::Kind::ask}, context);
    });
  }
}

void ActorRunner::end_questions(Context& context) {
  const auto is_over = [&](const Question& one) { return one.deadline < context.tick(); };
  for (auto late = std::find_if(own_.questions.begin(), own_.questions.end(), is_over); late != own_.questions.end();
       late = std::find_if(own_.questions.begin(), own_.questions.end(), is_over)) {
    const Question question = *late;
    own_.questions.erase(late);
    run_handler(context, nullptr, [&] {
      actor_->on_reply({graph_.nodes()[question.to].at, question.number, Errc::timed_out, {}}, context);
    });
  }
}

void ActorRunner::show_activations(Context& context) {
  const Observation& seen = context.seen();
  const Node& node = graph_.nodes()[node_];
  for (std::size_t i = 0; i < node.sources.size(); ++i) {
    const NodeId from = graph_.edges()[node.sources[i]].from;
    const Node& source = graph_.nodes()[from];
    const kernels::ConstMatrixView rows = std::as_const(*seen.state).output(from, seen.tick);
    for (std::size_t session = 0; session < rows.rows; ++session)
      run_handler(context, nullptr, [&] {
        actor_->on_activation({i, source.at, source.port, session, {rows.row(session), rows.cols}}, context);
      });
  }
}

bool ActorRunner::backward(const BackwardArgs& args) {
  for (std::size_t b = 0; b < args.dy.rows; ++b) {
    const std::span<float> back = args.dx.data ? std::span(args.dx.row(b), args.dx.cols) : std::span<float>();
    std::fill(back.begin(), back.end(), 0.0f);
    actor_->on_gradient({b, {args.dy.row(b), args.dy.cols}, back});
  }
  return true;
}

template <class Self, class Archive>
void ActorRunner::visit_own(Self& self, std::size_t nodes, Archive& archive) {
  archive.word(Field{"sent", Scope::control}, self.sent);
  archive.count(Field{"questions", Scope::control}, self.questions);
  for (auto& question : self.questions) {
    archive.word(Field{"question", Scope::control}, question.number);
    archive.word(Field{"deadline", Scope::control}, question.deadline);
    archive.word(Field{"to", Scope::control}, question.to, 0, nodes - 1);
  }
}

void ActorRunner::save(std::vector<std::uint64_t>& to) const {
  to.clear();
  WordWriter archive(to, scopes::kSnapshot);
  visit_own(own_, graph_.nodes().size(), archive);
  save_fields(*actor_, to);
}

Result<std::pair<ActorRunner::Own, std::unique_ptr<CellActor>>> ActorRunner::read(
    std::span<const std::uint64_t> words) const {
  const std::string object = graph_.nodes()[node_].object + " (" + graph_.layer_spec(node_).type + ")";
  WEFT_TRY(std::unique_ptr<CellActor> actor, copy_of(*actor_, object));
  WordReader archive(words, scopes::kSnapshot);
  Own own;
  visit_own(own, graph_.nodes().size(), archive);
  if (archive.has_failed()) return fail(Errc::corrupt, object + ": the questions that it asked cannot be read");
  if (Status restored = restore_fields(*actor, words.last(archive.words_left())); !restored)
    return fail(std::move(restored).error().within(object));
  return std::pair(std::move(own), std::move(actor));
}

Status ActorRunner::check(std::span<const std::uint64_t> words) const {
  WEFT_TRY(const auto read_back, read(words));
  (void)read_back;
  return {};
}

Status ActorRunner::restore(std::span<const std::uint64_t> words) {
  WEFT_TRY(auto read_back, read(words));
  own_ = std::move(read_back.first);
  actor_ = std::move(read_back.second);
  return {};
}

// A number that was taken back would be given to another question, which a reply to the first one would answer.
Status ActorRunner::restart(std::span<const std::uint64_t> words) {
  const std::uint64_t sent = own_.sent;
  Status restored = restore(words);
  own_.sent = std::max(own_.sent, sent);
  return restored;
}

}  // namespace weft::mesh
