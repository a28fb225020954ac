/*
 * topic.h
 *		Topic names and the templates of routes.
 */
#ifndef OUTBOX_TOPIC_H
#define OUTBOX_TOPIC_H

#include "postgres.h"

/* NULL where Kafka accepts the name, else why it does not (a sentence). */
extern const char *TopicNameProblem(const char *name);

/*
 * Puts the values in the places of {aggregate_type} and {event_type};
 * palloc'd.  NULL, with *problem set, where the template names anything else.
 */
extern char *TopicExpand(const char *template, const char *aggregate_type,
						 const char *event_type, const char **problem);

#endif
