/*
 * topic.c
 *		Topic names and the templates of routes.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "outbox.h"
#include "topic.h"

#define TOPIC_CHARACTERS \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

const char *
TopicNameProblem(const char *name)
{
	if (name[0] == '\0')
		return "The name of a topic cannot be empty.";
	if (strlen(name) > OUTBOX_TOPIC_MAX)
		return "The name of a topic has at most 249 characters.";
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return "A topic cannot be named \".\" or \"..\".";
	if (strspn(name, TOPIC_CHARACTERS) != strlen(name))
		return "The name of a topic consists of ASCII letters, digits, \".\", \"_\" and \"-\".";
	return NULL;
}

char *
TopicExpand(const char *template, const char *aggregate_type,
			const char *event_type, const char **problem)
{
	static const char aggregate_slot[] = "{aggregate_type}";
	static const char event_slot[] = "{event_type}";
	StringInfoData buf;

	initStringInfo(&buf);
	while (*template != '\0')
	{
		if (strncmp(template, aggregate_slot, strlen(aggregate_slot)) == 0)
		{
			appendStringInfoString(&buf, aggregate_type);
			template += strlen(aggregate_slot);
		}
		else if (strncmp(template, event_slot, strlen(event_slot)) == 0)
		{
			appendStringInfoString(&buf, event_type);
			template += strlen(event_slot);
		}
		else if (*template == '{' || *template == '}')
		{
			*problem =
				"A topic may contain the placeholders {aggregate_type} and {event_type}, no other braces.";
			pfree(buf.data);
			return NULL;
		}
		else
			appendStringInfoChar(&buf, *template ++);
	}
	return buf.data;
}
