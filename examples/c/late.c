/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <string.h>
#include <weft.h>

/* A stream of which each label comes three samples later. */

static const char* const network_file =
    "{\"weft\": 2, \"inputs\": {\"bits\": [2]}, \"chain\": ["
    "{\"type\": \"dense\", \"out\": 16, \"activation\": \"tanh\"}, {\"type\": \"dense\", \"out\": 2}],"
    " \"learning\": {\"optimizer\": {\"lr\": 0.1}, \"late\": \"meet\", \"patience\": 8}}";

static int failed(void) {
  fprintf(stderr, "%s\n", weft_last_error()->message);
  return 1;
}

int main(void) {
  weft_network* network;
  weft_mesh* mesh;
  weft_learner* learner;
  weft_learner_counts counts = {sizeof(weft_learner_counts)};
  int right = 0;
  int sample;

  if (weft_network_read(network_file, strlen(network_file), "late", &network) ||
      weft_mesh_build(network, NULL, &mesh) || weft_learner_build(mesh, NULL, &learner))
    return failed();
  for (sample = 0; sample < 2000; ++sample) {
    float bits[2], answer[2];
    weft_input input;
    uint64_t ticket;
    bits[0] = (float)(sample & 1);
    bits[1] = (float)(sample >> 1 & 1);
    input.name = "bits";
    input.values = bits;
    input.count = 2;
    if (weft_learner_observe(learner, &input, 1, &ticket) || weft_learner_answer(learner, ticket, "y", answer, 2, NULL))
      return failed();
    right += sample >= 1900 && (answer[1] > answer[0]) == (bits[0] != bits[1]); /* what a program would act on */
    if (sample >= 3) {
      const int then = sample - 3;
      const uint32_t label = (uint32_t)((then & 1) != (then >> 1 & 1));
      weft_target target = {sizeof(weft_target)};
      target.output = "y";
      target.labels = &label;
      target.label_count = 1;
      if (weft_learner_teach(learner, ticket - 3, &target, 1)) return failed();
    }
  }
  if (weft_learner_count(learner, &counts)) return failed();
  printf("%d of the last 100 answers were right; %lu samples, %lu trained\n", right, (unsigned long)counts.observed,
         (unsigned long)counts.taught);
  weft_learner_destroy(learner);
  weft_mesh_destroy(mesh);
  weft_network_destroy(network);
  return 0;
}
