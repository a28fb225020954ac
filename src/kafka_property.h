/*
 * kafka_property.h
 *		The client's properties as users write them: two notations, and what is
 *		refused in them.
 *
 * The lists and the texts lie in the current memory context.  A value may be
 * a secret: no text repeats one, and KafkaPropertiesFree() overwrites them.
 */
#ifndef OUTBOX_KAFKA_PROPERTY_H
#define OUTBOX_KAFKA_PROPERTY_H

#include "postgres.h"

typedef struct KafkaProperty
{
	char *name;
	char *value;
} KafkaProperty;

typedef struct KafkaProperties
{
	int count;
	int room;
	KafkaProperty *items;
} KafkaProperties;

/*
 * Checks the text of outbox.kafka_options.  False with *detail (palloc'd)
 * where it is refused.
 */
extern bool KafkaOptionsValid(const char *text, char **detail);

/*
 * The notation of outbox.kafka_options: entries name=value, separated by
 * commas or line ends; a value with blanks or commas stands in double quotes.
 */
extern bool KafkaPropertiesFromOptions(KafkaProperties *list, const char *text,
									   char **detail);

/*
 * The notation of the file: a line name=value each, # begins a comment line,
 * no quotes.  Scribbles on the text; path is for *detail only.
 */
extern bool KafkaPropertiesFromFile(KafkaProperties *list, char *text,
									const char *path, char **detail);

/* Appends copies, unchecked; of two with the same name the last one counts. */
extern void KafkaPropertiesAdd(KafkaProperties *list, const char *name,
							   const char *value);

extern void KafkaPropertiesFree(KafkaProperties *list);

#endif
